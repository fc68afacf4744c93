"""Publishers of data that several tasks use.

A `Download` has a checksum if its publisher prints one or several independent programs agree on it. The checksum of any
other file is recorded when the file is first fetched.
"""

from s7.data.download import Download


def long_range_arena(members: str) -> Download:
    """The files of the Long Range Arena that match a pattern. The archive has 7.7 GB and no published checksum."""
    return Download(
        "https://storage.googleapis.com/long-range-arena/lra_release.gz",
        "lra/lra_release.gz",
        page="https://github.com/google-research/long-range-arena",
        unpack=(members,),
    )


def zenke_lab(name: str, digest: str | None = None) -> Download:
    """A file of the spiking Heidelberg data sets."""
    return Download(
        f"https://zenkelab.org/datasets/{name}",
        f"{name[:3]}/{name}",
        digest=digest,
        page="https://zenkelab.org/resources/spiking-heidelberg-datasets-shd",
    )
