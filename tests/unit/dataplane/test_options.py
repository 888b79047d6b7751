"""The flags of the model server."""
from serveplane.dataplane.modelserver import formats, options


def test_the_flag_offers_the_formats_there_are() -> None:
    """Two lists, so that `--help` loads no format."""
    assert sorted(options.FRAMEWORKS) == sorted(formats.FRAMEWORKS)
