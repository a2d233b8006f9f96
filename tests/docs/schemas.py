"""What the examples may say: as much of the published schemas as they use. A field that is not here is a
mistake, or is to be added."""

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
    env=array({"type": "string", "pattern": r"[A-Za-z_][A-Za-z0-9_]*=.*"}),
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

NAME = {"type": "string", "pattern": r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"}
METADATA = fields(name=NAME, labels=any_of_names(TEXT))
CONTAINER = fields(
    ["name", "image"], name=NAME, image=TEXT, command=TEXTS, args=TEXTS,
    env=array(fields(["name"], name={"type": "string", "pattern": r"[A-Za-z_][A-Za-z0-9_]*"}, value=TEXT,
                     valueFrom=fields(["fieldRef"], fieldRef=fields(["fieldPath"], fieldPath=TEXT)))),
    resources=fields(limits=any_of_names(TEXT), requests=any_of_names(TEXT)),
    ports=array(fields(["containerPort"], name=NAME, containerPort={"type": "integer"})),
    volumeMounts=array(fields(["name", "mountPath"], name=NAME, mountPath={"type": "string", "pattern": "/.+"},
                              readOnly={"type": "boolean"})))
POD_SPEC = fields(
    ["containers"], containers=array(CONTAINER), initContainers=array(CONTAINER),
    restartPolicy={"enum": ["Always", "OnFailure", "Never"]},
    volumes=array(fields(["name"], name=NAME, emptyDir=fields(medium=TEXT),
                         image=fields(["reference"], reference=TEXT,
                                      pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]}),
                         hostPath=fields(["path"], path={"type": "string", "pattern": "/.+"},
                                         type={"enum": ["Directory", "DirectoryOrCreate", "File"]}))))


def resource(version, kind, spec):
    return fields(["apiVersion", "kind", "metadata", "spec"], apiVersion={"enum": [version]}, kind={"enum": [kind]},
                  metadata=METADATA, spec=spec)


ADMISSION = "admissionregistration.k8s.io/v1"
KUBERNETES = {
    "Pod": resource("v1", "Pod", POD_SPEC),
    "DaemonSet": resource("apps/v1", "DaemonSet", fields(
        ["selector", "template"], selector=fields(["matchLabels"], matchLabels=any_of_names(TEXT)),
        template=fields(["metadata", "spec"], metadata=METADATA, spec=POD_SPEC))),
    "MutatingAdmissionPolicy": resource(ADMISSION, "MutatingAdmissionPolicy", fields(
        ["matchConstraints", "mutations", "reinvocationPolicy"],
        failurePolicy={"enum": ["Fail", "Ignore"]}, reinvocationPolicy={"enum": ["Never", "IfNeeded"]},
        matchConstraints=fields(
            ["resourceRules"],
            resourceRules=array(fields(["apiGroups", "apiVersions", "operations", "resources"], apiGroups=TEXTS,
                                       apiVersions=TEXTS, operations=TEXTS, resources=TEXTS)),
            objectSelector=fields(matchExpressions=array(fields(["key", "operator"], key=TEXT, operator={
                "enum": ["In", "NotIn", "Exists", "DoesNotExist"]}, values=TEXTS)))),
        mutations=array(fields(["patchType", "applyConfiguration"], patchType={"enum": ["ApplyConfiguration"]},
                               applyConfiguration=fields(["expression"], expression=TEXT))))),
    "MutatingAdmissionPolicyBinding": resource(ADMISSION, "MutatingAdmissionPolicyBinding",
                                               fields(["policyName"], policyName=NAME)),
}

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
