"""What many commands import only when they need it, and the script of their pages: for a process that others fork from.

What bundles the script starts threads, which no fork would have. So a fork of its own does that, and hands it over.
"""

import os

import altair
import datasets
import vl_convert
from diffusers import AutoencoderKL, StableDiffusionPipeline, UNet2DConditionModel
from PIL import Image
from transformers import BertForSequenceClassification, ResNetForImageClassification, ViTForImageClassification

from scissorhands.report.figures.figure import script

IMPORTED = (altair, datasets, AutoencoderKL, StableDiffusionPipeline, UNet2DConditionModel)
LOADED = (BertForSequenceClassification, ResNetForImageClassification, ViTForImageClassification)


def _bundled() -> str:
    """The script of a page, as another process bundles it."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        with open(writer, "w") as file:
            file.write(script())
        os._exit(0)
    os.close(writer)
    with open(reader) as file:
        text = file.read()
    assert os.waitpid(child, 0)[1] == 0
    return text


Image.preinit()
BUNDLED = _bundled()
vl_convert.javascript_bundle = lambda *_, **__: BUNDLED
