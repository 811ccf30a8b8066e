"""Keeping secrets out of a recording: argument values after secret-like flags, and what the environment holds.

Traces in the wild carry access tokens. So only environment variables on an allow-list are recorded at all, argument
values that look secret are masked, and the values that were found secret are also removed from free text (an exception
that quotes a token, a source line with it).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

MASK = "***"

_SECRET_ENDINGS = (
    "token",
    "secret",
    "secrets",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
)
_SECRET_WORDS = {"key", "pwd", "pass", "auth", "authorization", "bearer", "cookie"}
_COUNTING_WORDS = {"max", "min", "num", "n", "per", "new", "total", "eos", "bos", "pad", "unk", "mask", "special"}
"""With one of these, a token is a piece of text."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_VALUE = re.compile(
    r"(?:hf|ghp|gho|ghu|ghs|glpat|sk|pk|rk|xox[abprs]|npm|pypi|wandb|dckr_pat)[-_][A-Za-z0-9_\-]{12,}"
    r"|github_pat_\w{20,}|A(?:KIA|SIA)[A-Z0-9]{16}|AIza[\w\-]{30,}|eyJ[\w\-]{10,}\.[\w\-]+\.[\w\-]*"
)
_URL_LOGIN = re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)")

ALLOWED_VARIABLES = re.compile(
    r"CUDA_(?:VISIBLE_DEVICES|LAUNCH_BLOCKING|DEVICE_ORDER|DEVICE_MAX_CONNECTIONS|MODULE_LOADING)"
    r"|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|ZE_AFFINITY_MASK|ONEAPI_DEVICE_SELECTOR"
    r"|(?:NCCL|RCCL|GLOO|UCX|CCL|NVSHMEM|NEURON|NEURONCORE|XLA|PJRT|TPU|LIBTPU|OMP|MKL|KMP|OPENBLAS|PYTORCH|TORCH|"
    r"TORCHINDUCTOR|TORCHDYNAMO|TORCHELASTIC|KINETO|TRITON|CUBLAS|CUDNN|MIOPEN|HSA|AMD|STALLSCOPE|SLURM_JOB|SLURM_N)_?\w*"
    r"|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|GROUP_RANK|ROLE_RANK|PYTHONHASHSEED|PYTHONUNBUFFERED|MALLOC_\w+"
    r"|LD_PRELOAD"
)
"""The environment variables whose values a recording keeps (matched whole); of all others not even the name."""


def is_secret_name(name: str) -> bool:
    """Whether a flag or variable of that name is likely to hold a secret."""
    words = [word.lower() for word in _WORD.findall(name)]
    if name in ("PWD", "OLDPWD") or _COUNTING_WORDS.intersection(words):
        return False
    return any(word.endswith(_SECRET_ENDINGS) or word in _SECRET_WORDS for word in words)


def masked_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments with secret-like values replaced by ``MASK``, and the values that were replaced.

    Masked are ``--token VALUE``, ``--token=VALUE``, ``token=VALUE`` in any spelling of a secret-like name, the login in
    a URL, and values of the form that known services give their tokens.
    """
    masked: list[str] = []
    secrets: list[str] = []
    follows_secret_flag = False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if follows_secret_flag and not argument.startswith("--"):
            secrets.append(argument)
            masked.append(MASK)
        elif equals and value and is_secret_name(name):
            secrets.append(value)
            masked.append(f"{name}={MASK}")
        else:
            secrets.extend(_SECRET_VALUE.findall(argument))
            secrets.extend(_URL_LOGIN.findall(argument))
            masked.append(_without_patterns(argument))
        follows_secret_flag = argument.startswith("-") and not equals and is_secret_name(argument)
    return masked, secrets


def allowed_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that a recording may keep, their values masked where they look secret all the same."""
    return {
        name: MASK if is_secret_name(name) else _without_patterns(value)
        for name, value in sorted(variables.items())
        if ALLOWED_VARIABLES.fullmatch(name)
    }


def environment_secrets(variables: Mapping[str, str]) -> list[str]:
    """The values of secret-like variables, and token-like values of any variable."""
    found = [value for name, value in variables.items() if is_secret_name(name)]
    for value in variables.values():
        found.extend(_SECRET_VALUE.findall(value))
        found.extend(_URL_LOGIN.findall(value))
    return found


class Redactor:
    """Removes known secrets from texts.

    Args:
        secrets: The values; those under eight characters are left alone, since they would match by chance.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({secret for secret in secrets if len(secret) >= 8}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text with every known secret, and everything of a known token's form, replaced by ``MASK``."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return _without_patterns(text)


def _without_patterns(text: str) -> str:
    return _URL_LOGIN.sub(MASK, _SECRET_VALUE.sub(MASK, text))
