"""`cubfc fit --random-weights`: models of Hugging Face's are loaded without their weights, from their configuration alone.

Hugging Face's own code loads each model, from a file that is made here. The file has each tensor in its type and size, and a
hole in place of the numbers, so that it takes no room on disk whatever the model's size."""

import json
import os
import tempfile

from .notes import notes

_ALIGNED = 64
# Arguments that choose a model's files within its repository. The folder that is made here has no such choice.
_OF_REPOSITORY = ("revision", "subfolder", "variant", "token", "use_auth_token", "cache_dir", "force_download", "local_files_only",
                  "proxies", "code_revision", "use_safetensors", "weight_name")
_TO_FIND = ("revision", "subfolder", "token", "cache_dir", "local_files_only", "trust_remote_code")
_WEIGHTS = ["*.safetensors", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.msgpack", "*.h5", "*.onnx", "*.gguf"]
_TYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16",
          "int8": "I8", "uint8": "U8", "bool": "BOOL", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}


def _write_holes(path, tensors):
    """Writes a safetensors file, with a hole in place of the numbers. `tensors`: {name: (dtype, size)}."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, size) in tensors.items():
        count = 1
        for each in size:
            count *= each
        begin, end = end, end + count * dtype.itemsize
        header[name] = {"dtype": _TYPES[str(dtype).rpartition(".")[2]], "shape": list(size), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNED)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def _tensors_of(model, dtype):
    """The tensors that the model saves, each under one name only. `dtype`: of floating-point tensors; None: their own."""
    names = {id(tensor): name for name, tensor in reversed([*model.named_parameters(), *model.named_buffers()])}
    saved = set(model.state_dict())
    return {name: (dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype, tensor.size())
            for name, tensor in [*model.named_parameters(), *model.named_buffers()]
            if name in saved and names[id(tensor)] == name}


def _folder():
    return tempfile.mkdtemp(prefix="weights-", dir=os.path.dirname(os.environ["CUBFC_FIT_NOTES"]))


def _without(named, names):
    return {name: value for name, value in named.items() if name not in names}


def _with(named, names):
    return {name: value for name, value in named.items() if name in names}


def make_up_transformers(module):
    """Called after transformers.modeling_utils was imported."""
    import torch
    kind = module.PreTrainedModel
    load = kind.from_pretrained.__func__

    def from_pretrained(cls, name, *arguments, config=None, **named):
        if name is None or named.get("state_dict") is not None or named.get("gguf_file"):
            return load(cls, name, *arguments, config=config, **named)
        if not hasattr(config, "to_dict"):
            config = cls.config_class.from_pretrained(config or name, **_with(named, _TO_FIND))
        if getattr(config, "quantization_config", None):
            notes.add("weights", f"{name}, whose weights are quantized")
            return load(cls, name, *arguments, config=config, **named)
        with torch.device("meta"):
            model = cls._from_config(config)
        dtype = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None) or torch.float32
        dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        folder = _folder()
        config.save_pretrained(folder)
        _write_holes(os.path.join(folder, "model.safetensors"), _tensors_of(model, dtype))
        return load(cls, folder, *arguments, config=config, **_without(named, _OF_REPOSITORY))

    kind.from_pretrained = classmethod(from_pretrained)


def make_up_diffusers(module):
    """Called after diffusers.models.modeling_utils was imported."""
    import torch
    kind = module.ModelMixin
    load = kind.from_pretrained.__func__

    def from_pretrained(cls, name, **named):
        config = cls.load_config(name, **_with(named, _TO_FIND))
        if config.get("quantization_config"):
            notes.add("weights", f"{name}, whose weights are quantized")
            return load(cls, name, **named)
        with torch.device("meta"):
            model = cls.from_config(config)
        folder = _folder()
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(dict(config), file)
        dtype = named.get("torch_dtype")
        _write_holes(os.path.join(folder, "diffusion_pytorch_model.safetensors"),
                     _tensors_of(model, dtype if isinstance(dtype, torch.dtype) else None))
        return load(cls, folder, **_without(named, _OF_REPOSITORY))

    kind.from_pretrained = classmethod(from_pretrained)


def download_no_weights(module):
    """Called after diffusers.pipelines.pipeline_utils was imported, whose pipelines fetch all their files before they make a
    model."""
    download = module.snapshot_download

    def snapshot_download(*arguments, **named):
        named["ignore_patterns"] = [*(named.get("ignore_patterns") or ()), *_WEIGHTS]
        return download(*arguments, **named)

    module.snapshot_download = snapshot_download
