"""An object store's bucket, by URL: S3 and compatible stores (R2, MinIO …), Google Cloud Storage, Azure.

Credentials and region come from the environment, under the names that the vendors' own tools use; never from the URL,
which is registered and shown.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, quote

from ..core import checks
from ..errors import GateUnreachable, UsageError
from ..system import extras

Version = dict[str, str]  # an object's version, as a conditional put names it: the ETag, or what the store has instead

# How many parts at the start of the path name the bucket. Azure: account and container.
_BUCKET_PARTS = {"s3": 1, "gs": 1, "az": 2}
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_SERVICE_ACCOUNT (the path of a key file)",
    "az": "AZURE_STORAGE_ACCOUNT_KEY",
}
# An error with one of these means that no credentials were set: the client asked a cloud machine's metadata service.
_METADATA_PATHS = ("/latest/api/token", "/latest/meta-data", "/metadata/identity", "computeMetadata")
_TIMEOUT = timedelta(seconds=30)  # for one request; a large payload is sent in several


class Bucket:
    """`url` is valid on every machine: an endpoint from the environment is written into it."""

    def __init__(self, url: str) -> None:
        plain, _, query = checks.text(url, "an object's URL").partition("?")
        scheme, _, path = plain.partition("://")
        leading = _BUCKET_PARTS.get(scheme, 0)
        parts = path.split("/", leading)
        if not leading or not all(parts) or len(parts) <= leading or parts[-1].endswith("/"):
            raise UsageError(
                f"{url!r} does not name an object: write s3://bucket/key, gs://bucket/key or az://account/box/key"
            )
        self.key = parts[-1]
        self._bucket_url = f"{scheme}://{'/'.join(parts[:-1])}"
        self._options = dict(parse_qsl(query, keep_blank_values=True))
        if self._options.keys() - ({"endpoint", "region"} if scheme == "s3" else {"endpoint"}):
            raise UsageError(f"{url!r}: options are ?endpoint=URL, and for s3:// &region=NAME")
        if "endpoint" not in self._options:
            found = next((os.environ[name] for name in _ENDPOINTS[scheme] if os.environ.get(name)), None)
            self._options |= {"endpoint": found} if found else {}
        options = "&".join(f"{name}={quote(text, safe=':/')}" for name, text in sorted(self._options.items()))
        self.url = plain + (f"?{options}" if options else "")
        self._opened: Any = None

    def get(self, path: str) -> tuple[bytes, Version] | None:
        """Content and version; None if there is no such object."""
        store, obstore, errors = self._open()
        try:
            result = obstore.get(store, path)
            return bytes(result.bytes()), _version(result.meta)
        except FileNotFoundError:
            return None
        except errors.BaseError as error:
            raise self._unreachable(error) from error

    def swap(self, path: str, content: bytes, version: Version | None) -> bool:
        """Put the content if the object still has this version (None: if none exists). False if it has changed."""
        store, obstore, errors = self._open()
        try:
            obstore.put(store, path, content, mode=version or "create")
            return True
        except (errors.AlreadyExistsError, errors.PreconditionError):
            return False
        except (errors.BaseError, FileNotFoundError) as error:
            raise self._unreachable(error) from error

    def put(self, path: str, content: bytes | BinaryIO, kind: str) -> None:
        """Put a payload, in parts if it is large. It needs no condition, since nobody else writes to its random key."""
        store, obstore, errors = self._open()
        try:
            obstore.put(store, path, content, attributes={"Content-Type": kind})
        except (errors.BaseError, FileNotFoundError) as error:
            raise self._unreachable(error) from error

    def discard(self, path: str) -> None:
        """Delete an object that nothing points to. If that fails, it only costs some storage."""
        store, obstore, errors = self._open()
        try:
            obstore.delete(store, path)
        except (errors.BaseError, FileNotFoundError):
            pass

    def below(self, path: str) -> list[str]:
        """The objects whose keys begin with `path/`."""
        store, obstore, errors = self._open()
        try:
            return [found["path"] for page in obstore.list(store, path) for found in page]
        except errors.BaseError as error:
            raise self._unreachable(error) from error

    def probe(self, path: str) -> None:
        """Raise if the store ignores the conditions of a put: every writer in a race would then believe that it won."""
        try:
            honoured = self.swap(path, b"1", None) and not self.swap(path, b"2", None)
            first = self.get(path)
            honoured = honoured and first is not None and self.swap(path, b"3", first[1])
            honoured = honoured and first is not None and not self.swap(path, b"4", first[1])
        finally:
            self.discard(path)
        if not honoured:
            raise GateUnreachable(
                f"{self.url} cannot be gated: this store ignores the conditions of a put (If-Match, If-None-Match), so "
                f"the token cannot be verified in one step with the write. Nothing was written. Use a store or a "
                f"version that honours them: S3, R2, GCS, Azure, MinIO and SeaweedFS do"
            )

    def _open(self) -> tuple[Any, Any, Any]:
        try:
            import obstore
            from obstore import exceptions
            from obstore import store as stores
        except ImportError as error:
            raise UsageError(f"{self.url} needs a client: {extras.install('objects')}") from error
        if self._opened is None:
            where, options = self._client_arguments()
            endpoint = self._options.get("endpoint", "")
            from_url: Any = stores.from_url  # its type depends on the kind of store, which only the URL shows
            try:
                self._opened = from_url(
                    where,
                    client_options={"allow_http": endpoint.startswith("http://"), "timeout": _TIMEOUT},
                    retry_config={"max_retries": 3, "retry_timeout": _TIMEOUT},
                    **options,
                )
            except (exceptions.BaseError, ValueError) as error:
                raise self._unreachable(error) from error
        return self._opened, obstore, exceptions

    def _client_arguments(self) -> tuple[str, dict[str, str]]:
        """URL and options as obstore takes them: Azure's account is an option, and Google's endpoint is `base_url`."""
        scheme, _, path = self._bucket_url.partition("://")
        if scheme == "az":
            account, _, container = path.partition("/")
            return f"az://{container}", {"account_name": account, **self._options}
        if scheme == "gs":
            return self._bucket_url, {"base_url": self._options["endpoint"]} if self._options else {}
        return self._bucket_url, self._options

    def _unreachable(self, error: Exception) -> GateUnreachable:
        reason = str(error).partition("\n\nDebug source")[0]
        if "NoSuchBucket" in reason:
            reason, advice = f"{self._bucket_url} does not exist", "Create the bucket, or name another"
        elif any(path in reason for path in _METADATA_PATHS):
            names = _CREDENTIALS[self.url.partition("://")[0]]
            reason, advice = "there are no credentials for it in the environment", f"Set {names}, then try again"
        elif type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError"):
            reason, advice = type(error).__name__.removesuffix("Error"), "Check the credentials in the environment"
        else:
            advice = "Check endpoint, region and network, then try again"
        return GateUnreachable(f"{self.url} could not be sealed or written: {reason}. {advice}")


def _version(meta: Any) -> Version:
    return {word: meta[word] for word in ("e_tag", "version") if meta.get(word)}
