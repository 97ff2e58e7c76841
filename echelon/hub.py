"""Transfer of policy folders to and from the Hugging Face Hub (extra ``hub``).

``huggingface_hub`` reads the server's address and the token from ``HF_ENDPOINT`` and ``HF_TOKEN``, else from its own
login. What comes down is data only: weights as safetensors, JSON, text and replays; nothing in it is run.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from echelon.files import error_text, reason_of

README, REPLAY, PAGE = "README.md", "match.ecr", "match.html"
"""Files of a repository besides those of the policy: model card, a match, and the match as a page with the viewer."""
POLICY = ("manifest.json", "model.safetensors")
FETCHED = (*POLICY, README, REPLAY, PAGE)
"""Files that ``download`` takes; others in a repository are left there."""
NAME = re.compile(r"[\w.-]+/[\w.-]+")
"""Name of a repository."""
ERRNO = re.compile(r"\[Errno -?\d+\] ")
"""Number of a system's error in the message of a transport."""
MAX_BYTES = 2 << 30
"""Sum of the sizes of these files above which a repository is not downloaded."""


def _library() -> Any:
    """Return the module ``huggingface_hub``; ``ValueError`` where it is not installed."""
    try:
        import huggingface_hub  # pyright: ignore[reportMissingImports]
        from huggingface_hub.utils import disable_progress_bars  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError("huggingface_hub is not installed; try: pip install 'echelon[hub]'") from None
    disable_progress_bars()
    return huggingface_hub


@contextmanager
def _one_line_errors(action: str) -> Iterator[None]:
    """Turn every error of the library and of the network into a ``ValueError`` of one line."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # pyright: ignore[reportMissingImports]

    try:
        yield
    except Exception as error:
        # clients of different versions raise their transport's own errors
        expected = (HfHubHTTPError, HFValidationError, OSError, ValueError)
        if not isinstance(error, expected) and not type(error).__module__.startswith("http"):
            raise
        cause: BaseException = error
        while cause.__cause__ is not None and not isinstance(cause, HfHubHTTPError):
            cause = cause.__cause__
        first = next(iter(ERRNO.sub("", reason_of(cause)).strip().splitlines()), type(cause).__name__)
        has_number = isinstance(cause, OSError) and cause.errno is not None
        advice = "; try HF_ENDPOINT or another network" if has_number or not isinstance(cause, expected) else ""
        raise ValueError(f"{action} failed: {first}{advice}") from None


def require_name(repo: str) -> str:
    """Return the name of a repository; ``ValueError`` unless it is ``OWNER/NAME``."""
    if not NAME.fullmatch(repo):
        raise ValueError(f"repository {repo!r} is no OWNER/NAME; try someone/keen-fox")
    return repo


def upload(folder: Path, repo: str, *, private: bool = False, message: str = "Upload policy") -> str:
    """Create the model repository ``OWNER/NAME`` where there is none, upload the folder, and return its address."""
    hub = _library()
    with _one_line_errors(f"upload to {repo!r}"):
        api = hub.HfApi(library_name="echelon")
        api.create_repo(repo, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=str(folder), commit_message=message)
        return f"{api.endpoint}/{repo}"


def download(repo: str, target: Path, *, revision: str | None = None) -> None:
    """Write the policy of a repository into the new folder ``target``, with card and match where it has them.

    ``ValueError`` leaves no folder, also where weights and manifest are damaged or missing.
    """
    from echelon.rl.checkpoint import POLICY_FILES, open_checkpoint

    if target.exists():
        raise ValueError(f"folder {str(target)!r} already exists; try another --out")
    hub = _library()
    with tempfile.TemporaryDirectory(prefix=".pull-", dir=target.absolute().parent) as parent:
        fetched = Path(parent) / "policy"
        with _one_line_errors(f"download of {repo!r}"):
            fetch = partial(
                hub.snapshot_download, repo, revision=revision, allow_patterns=list(FETCHED), local_dir=str(fetched)
            )
            size = sum(file.file_size or 0 for file in fetch(dry_run=True))
            if size > MAX_BYTES:
                raise ValueError(f"its policy has {size:,} bytes, expected at most {MAX_BYTES:,}")
            fetch()
        if not (fetched / POLICY[0]).is_file():
            raise ValueError(f"repository {repo!r} has no {POLICY[0]}, expected a policy of echelon policy push")
        try:
            open_checkpoint(fetched, POLICY_FILES)
        except (OSError, ValueError) as error:
            raise ValueError(f"repository {repo!r} has no valid policy: {error_text(error)}") from None
        shutil.rmtree(fetched / ".cache", ignore_errors=True)
        fetched.rename(target)
