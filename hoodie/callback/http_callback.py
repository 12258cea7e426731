"""Post a message about each commit to a URL.

Hudi: org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback,
org.apache.hudi.callback.client.http.HoodieWriteCommitHttpCallbackClient.
"""

from __future__ import annotations

import logging
import urllib.error
import urllib.request
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException
from typing import IO
from urllib.parse import urlsplit

from hoodie.callback.write_commit_callback import HoodieWriteCommitCallback, HoodieWriteCommitCallbackMessage
from hoodie.config.callback_config import parse_headers
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieCommitCallbackException, HoodieConfigException

logger = logging.getLogger(__name__)

API_KEY_HEADER = "HUDI-CALLBACK-KEY"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: another host must not get the headers."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Return None: the answer then counts as an error."""


class HoodieWriteCommitHttpCallback(HoodieWriteCommitCallback):
    """Posts the message as JSON, with the header ``HUDI-CALLBACK-KEY``; a status of 300 or more is an error.

    Proxies are taken from the environment (``https_proxy``).

    Args:
        config: The configuration with ``hoodie.write.commit.callback.http.*``.

    Raises:
        HoodieConfigException: No URL is given.

    Hudi: org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback.
    """

    def __init__(self, config: HoodieWriteConfig) -> None:
        super().__init__(config)
        if config.callback.http_url is None:
            raise HoodieConfigException(
                "hoodie.write.commit.callback.on = true needs hoodie.write.commit.callback.http.url: give the URL to "
                "post to, or a class of your own by hoodie.write.commit.callback.class"
            )
        self._url = config.callback.http_url
        parts = urlsplit(self._url)
        # The path is not shown: it may contain a secret, as with web hooks of chats.
        self._host = f"{parts.scheme}://{parts.netloc}"
        self._headers = {
            API_KEY_HEADER: config.callback.http_api_key,
            "Content-Type": "application/json; charset=UTF-8",
            **parse_headers(config.callback.http_custom_headers or ""),
        }
        self._opener = urllib.request.build_opener(_NoRedirects)

    def call(self, message: HoodieWriteCommitCallbackMessage) -> None:
        """Post the message.

        Raises:
            HoodieCommitCallbackException: The message was not accepted, or it is unknown whether it arrived.
        """
        request = urllib.request.Request(self._url, message.to_json().encode(), self._headers, method="POST")
        subject = f"the message of commit {message.commit_time} to {self._host} "
        try:
            with self._opener.open(request, timeout=self.config.callback.http_timeout_seconds) as answer:
                status = HTTPStatus(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            raise HoodieCommitCallbackException(f"{subject}was answered by {error.code} {error.reason}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise HoodieCommitCallbackException(f"{subject}could not be sent: {error}") from error
        logger.info(
            "posted to %s the message of commit %s: %d %s", self._host, message.commit_time, status.value, status.phrase
        )
