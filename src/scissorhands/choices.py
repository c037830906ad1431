"""What commands show in their help, apart from the code that uses it, which would import torch."""

LEVELS = ("quick", "standard", "deep")  # of evaluation
PRECISIONS = ("full", "bfloat16")  # that layers compute in
HOLDOUT = 0.1  # the share of the training data that is held out as unseen
PAGE = "report.html"
# The rules of what to forget, and the names of all methods.
RULES = ("random", "class", "classes", "ids", "keys", "where", "concept")
METHODS = (
    *("scissorhands", "retrain", "finetune", "ascent", "influence", "shrink", "expand", "l1sparse", "salun"),
    *("randomlabel", "neggradplus", "scrub", "ssd", "sfron", "munba", "gradtau", "lotus", "regun"),
    *("scissorhands-diffusion", "salun-diffusion", "esd"),
)
TRACKERS = ("tensorboard", "mlflow", "wandb")  # where losses and scores can be written, too
MISSING = REFUSE, SKIP = "refuse", "skip"  # what to do with a listed record that is not in the model
