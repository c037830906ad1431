"""What a check found."""

from dataclasses import dataclass, field


@dataclass
class Findings:
    """What holds, what was not looked at, what does not hold, and which lines of a policy are broken."""

    held: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def check(self, holds: bool, held: str, failed: str) -> None:
        """Note one of two sentences."""
        (self.held if holds else self.failed).append(held if holds else failed)

    def check_all(self, faults: list[str], held: str) -> None:
        """Note all faults, or the sentence if there are none."""
        self.failed += faults
        self.held += [] if faults else [held]

    @property
    def exit_code(self) -> int:
        """Return 1 if something does not hold, 3 if only a policy is broken.

        >>> Findings(broken=["policy.toml, line 1"]).exit_code
        3
        """
        return 1 if self.failed else 3 if self.broken else 0

    def lines(self) -> list[str]:
        """Return a line for each finding, the faults last."""
        marked = {"holds": self.held, "not checked": self.unchecked, "FAILED": self.failed, "POLICY": self.broken}
        return [f"{mark}: {sentence}" for mark, sentences in marked.items() for sentence in sentences]
