"""From a name or a folder to numbered records; from one sentence ("class:3") to a split and a problem."""
