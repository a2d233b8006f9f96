"""What the examples may say: as much of the published schemas as they use. A field that is not here is a
mistake, or is to be added. Kubernetes' own are asked by tests/engines/kubernetes_test.py."""

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}


def fields(required=(), **known):
    return {"type": "object", "required": list(required), "properties": known, "additionalProperties": False}


def any_of_names(value):
    return {"type": "object", "additionalProperties": value}


def array(items):
    return {"type": "array", "items": items, "minItems": 1}


# https://github.com/cncf-tags/container-device-interface, SPEC.md and pkg/parser
CDI_EDITS = fields(
    mounts=array(fields(["hostPath", "containerPath"], hostPath={"type": "string", "pattern": "/.+"},
                        containerPath={"type": "string", "pattern": "/.+"}, options=TEXTS, type=TEXT)))
CDI = fields(
    ["cdiVersion", "kind", "devices"],
    cdiVersion={"enum": ["0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"]},  # 0.5.0: names begin with a digit
    kind={"type": "string",
          "pattern": r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+/[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?"},
    containerEdits=CDI_EDITS,
    devices=array(fields(["name", "containerEdits"],
                         name={"type": "string", "pattern": r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?"},
                         containerEdits=CDI_EDITS)))

# https://github.com/compose-spec/compose-spec, https://containers.dev/implementors/json_reference
COMPOSE = fields(
    ["services", "x-cubfc"], **{"x-cubfc": {"type": "object"}},
    services=any_of_names(fields(
        ["image"], image=TEXT, volumes=TEXTS, ipc={"type": "string", "pattern": "shareable|private|host|service:[a-z]+"},
        environment=any_of_names(TEXT),
        deploy=fields(resources=fields(reservations=fields(devices=array(fields(
            ["capabilities"], driver=TEXT, device_ids=TEXTS, capabilities=TEXTS))))))))
DEVCONTAINER = fields(["image"], name=TEXT, image=TEXT, runArgs=TEXTS, mounts=TEXTS, containerEnv=any_of_names(TEXT),
                      remoteEnv=any_of_names(TEXT))
