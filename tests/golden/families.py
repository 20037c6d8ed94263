"""The families that the golden scripts know, by name and by class of pipeline. Each is a module with

    PIPELINE, VAE, MASKED_TEXT, LEAST_STEPS, LOW_VAE  what it is
    IMAGE_PIPELINE                                    for cases with `pictures`
    from_video                                        a pipeline as that of video to video, or of image to image, for
                                                      requests with `strength`
    CASES                                             its minis
    components, arguments                             a pipeline's parts, and what it is called with
    hook_dit, hook_vae, grid, schedule                what is seen of a run
    decoded, decode, encode, clip_shape               latents to frames and back
    defaults, way                                     a whole render (parity), a step of one (fullsize)
    wide, widen_model                                 what float64 changes
    random_spec, random_image_spec                    a configuration drawn by chance (parity); the second where there are
                                                      models of image to video
    IMAGES                                            where its pipelines make images, which have one frame
    texts, hook_text                                  where the text encoder is not T5 alone
    sample                                            what is seen of a sample, where ours keeps another multiple of it
"""
import json
import os

import family_cogvideox
import family_flux
import family_hunyuan
import family_mochi
import family_opensora
import family_sd3
import family_wan

NAMED = {"wan": family_wan, "cogvideox": family_cogvideox, "mochi": family_mochi,
         "hunyuan": family_hunyuan, "flux": family_flux, "sd3": family_sd3, "opensora": family_opensora}
CASES = {name: spec for family in NAMED.values() for name, spec in family.CASES.items()}
BY_CLASS = {pipeline.__name__: family for family in NAMED.values()
            for pipeline in (family.PIPELINE, getattr(family, "IMAGE_PIPELINE", family.PIPELINE))}


def class_of(folder):
    with open(os.path.join(folder, "model_index.json"), encoding="utf-8") as f:
        return json.load(f).get("_class_name")


def absent_in(folder):
    """Parts of the pipeline that the folder goes without."""
    with open(os.path.join(folder, "model_index.json"), encoding="utf-8") as f:
        return [name for name, entry in json.load(f).items() if entry == [None, None]]


def of(folder):
    name = class_of(folder)
    if name not in BY_CLASS:
        raise SystemExit(f"{folder}/model_index.json: _class_name {name} is none of {', '.join(BY_CLASS)}")
    return BY_CLASS[name]


def name_of(folder):
    return next(name for name, family in NAMED.items() if family is of(folder))


def pictures_of(folder):
    """How many a clip of it begins with."""
    image = getattr(of(folder), "IMAGE_PIPELINE", None)
    return int(image is not None and image.__name__ == class_of(folder))


def of_pipe(pipe):
    return BY_CLASS[getattr(pipe, "made_of", type(pipe).__name__)]
