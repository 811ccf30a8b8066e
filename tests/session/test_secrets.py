"""What of arguments and environment a recording may keep."""

from __future__ import annotations

import pytest

from stallscope.profiler.session.secrets import (
    MASK,
    Redactor,
    allowed_environment,
    environment_secrets,
    is_secret_name,
    masked_arguments,
)

TOKEN = "hf_" + "aB3" * 8


@pytest.mark.parametrize(
    "arguments",
    [
        ["--hf-token", "plain-value"],
        ["--token=plain-value"],
        ["model.api_key=plain-value"],
        ["--wandb-key", "plain-value"],
        ["--password", "plain-value"],
        ["-token", "plain-value"],
        ["WANDB_API_KEY=plain-value"],
        ["--auth_header=plain-value"],
    ],
)
def test_values_after_secret_names_are_masked(arguments: list[str]) -> None:
    masked, secrets = masked_arguments(["train.py", *arguments, "--lr", "1"])
    assert "plain-value" not in " ".join(masked)
    assert "plain-value" in secrets
    assert masked[-2:] == ["--lr", "1"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--tokenizer", "gpt2"],
        ["--max-tokens", "128"],
        ["--num_tokens=5"],
        ["--author", "me"],
        ["--lr", "0.1"],
        ["--keys-only"],
        ["data/monkey.py"],
        ["--tokenizer=meta/llama"],
        ["--batch-tokens", "4096"],
    ],
)
def test_ordinary_values_are_kept(arguments: list[str]) -> None:
    assert masked_arguments(arguments) == (arguments, [])


def test_values_of_a_tokens_form_and_logins_in_urls_are_masked_anywhere() -> None:
    masked, secrets = masked_arguments([TOKEN, f"--x=a{TOKEN}b", "s3://user:pa55word@host/bucket"])
    assert TOKEN not in " ".join(masked)
    assert "pa55word" not in " ".join(masked)
    assert "host/bucket" in masked[2]
    assert TOKEN in secrets[0]


def test_the_environment_is_an_allow_list() -> None:
    variables = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_DEBUG": "INFO",
        "HF_TOKEN": TOKEN,
        "HOME": "/home/me",
        "OMP_NUM_THREADS": "4",
        "TORCH_SOMETHING_TOKEN": "abcdef",
        "PYTORCH_CUDA_ALLOC_CONF": "x:1",
        "NCCL_NET": f"a{TOKEN}",
    }
    kept = allowed_environment(variables)
    assert set(kept) == {
        "CUDA_VISIBLE_DEVICES",
        "NCCL_DEBUG",
        "NCCL_NET",
        "OMP_NUM_THREADS",
        "PYTORCH_CUDA_ALLOC_CONF",
        "TORCH_SOMETHING_TOKEN",
    }
    assert kept["TORCH_SOMETHING_TOKEN"] == MASK
    assert TOKEN not in str(kept)
    assert {TOKEN, "abcdef"} <= set(environment_secrets(variables))


def test_known_secrets_leave_free_text() -> None:
    redact = Redactor(["s3cret-value", "abc", TOKEN])
    assert redact("401 for s3cret-value at abc") == f"401 for {MASK} at abc"
    assert TOKEN not in redact(f"token {TOKEN}")


def test_secret_names() -> None:
    assert is_secret_name("--api-key")
    assert is_secret_name("AWS_SECRET_ACCESS_KEY")
    assert not is_secret_name("tokenizer")
    assert not is_secret_name("monkey")
    assert not is_secret_name("PWD")
