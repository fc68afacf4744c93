"""Where the data of each task are published: the official files, by the name of the task.

A checksum stands here if the publisher prints it or several independent programs agree on it; the others are seen for
the first time when they are fetched, and remembered.
"""

from s7.data.download import Download

_MENDELEY = "https://data.mendeley.com/public-files/datasets/468j46mzdv/files"
_ZENKE = "https://zenkelab.org/datasets"
_ZENKE_PAGE = "https://zenkelab.org/resources/spiking-heidelberg-datasets-shd"


def _long_range_arena(members: str) -> Download:
    """7.7 GB, of which a task needs a little. No checksum is published."""
    return Download(
        "https://storage.googleapis.com/long-range-arena/lra_release.gz",
        "lra/lra_release.gz",
        page="https://github.com/google-research/long-range-arena",
        unpack=(members,),
    )


def _spikes(name: str, digest: str | None = None) -> Download:
    return Download(f"{_ZENKE}/{name}", f"{name[:3]}/{name}", digest=digest, page=_ZENKE_PAGE)


def _saccades(name: str, number: str, digest: str) -> Download:
    page = "https://www.garrickorchard.com/datasets/n-mnist"
    return Download(f"{_MENDELEY}/{number}/file_downloaded", f"nmnist/{name}", digest=digest, page=page)


DOWNLOADS: dict[str, tuple[Download, ...]] = {
    "nmnist": (
        _saccades("Train.zip", "39c25547-014b-4137-a934-9d29fa53c7a0", "md5:20959b8e626244a1b502305a9e6e2031"),
        _saccades("Test.zip", "05a4d654-7e03-4c15-bdfa-9bb2bcbea494", "md5:69ca8762b2fe404d9b9bad1103e97832"),
    ),
    "dvs-gesture": (
        Download(
            "https://ibm.ent.box.com/s/3hiq58ww1pbbjrinh367ykfdf60xsfm8/folder/50167556794",
            "dvs_gesture/DvsGesture.tar.gz",
            digest="md5:8a5c71fb11e24e5ca5b11866ca6c00a1",
            page="https://research.ibm.com/interactive/dvsgesture",
            unpack=("*",),
        ),
    ),
    "shd": (
        _spikes("shd_train.h5.gz", "md5:d47c9825dee33347913e8ce0f2be08b0"),
        _spikes("shd_test.h5.gz", "md5:3062a80ec0c5719404d5b02e166543b1"),
    ),
    # Their checksums are published beside them, in md5sums.txt, but could not be verified here.
    "ssc": (_spikes("ssc_train.h5.gz"), _spikes("ssc_valid.h5.gz"), _spikes("ssc_test.h5.gz")),
    "spoken-digits": (
        # Packed by the server when asked for: there is no checksum to rely on, and no size.
        Download(
            "https://github.com/Jakobovski/free-spoken-digit-dataset/archive/refs/tags/v1.0.10.tar.gz",
            "fsdd/free-spoken-digit-dataset-1.0.10.tar.gz",
            page="https://github.com/Jakobovski/free-spoken-digit-dataset",
        ),
    ),
    "human-activity": (
        Download(
            "https://archive.ics.uci.edu/ml/machine-learning-databases/00196/ConfLongDemo_JSI.txt",
            "har/ConfLongDemo_JSI.txt",
            digest="md5:280a677ae0d673ec9a50ada480d8a529",
            page="https://archive.ics.uci.edu/dataset/196/localization+data+for+person+activity",
        ),
    ),
    "eigenworms": (
        # No checksum is published.
        Download(
            "https://www.timeseriesclassification.com/aeon-toolkit/EigenWorms.zip",
            "eigenworms/EigenWorms.zip",
            page="https://www.timeseriesclassification.com/description.php?Dataset=EigenWorms",
        ),
    ),
    "walker2d": (
        # No checksum is published. Its author moved it more than once.
        Download(
            "https://people.csail.mit.edu/mlechner/datasets/walker.zip",
            "walker2d/walker.zip",
            page="https://github.com/mlech26l/ode-lstms",
            mirrors=("https://www.mit.edu/~mlechner/walker.zip",),
        ),
    ),
    "text": (
        Download(
            "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            "imdb/aclImdb_v1.tar.gz",
            bytes=84_125_825,
            digest="sha256:c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
            page="https://ai.stanford.edu/~amaas/data/sentiment",
        ),
    ),
    "image": (
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "cifar10/cifar-10-binary.tar.gz",
            bytes=170_052_171,
            digest="sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            page="https://www.cs.toronto.edu/~kriz/cifar.html",
        ),
    ),
    "listops": (_long_range_arena("*/listops-1000/*"),),
    "retrieval": (_long_range_arena("*/tsv_data/*"),),
    "pathfinder": (_long_range_arena("*/pathfinder32/curv_contour_length_14/*"),),
    "path-x": (_long_range_arena("*/pathfinder128/curv_contour_length_14/*"),),
}

# Nobody needs these: a program makes data of the same kind.
OPTIONAL = ("listops", "pathfinder", "path-x")

# No program can fetch these; what a person put in their place is checked and unpacked like the others.
BY_HAND: dict[str, str] = {
    "dvs-gesture": (
        "IBM gives DvsGesture.tar.gz to people who open https://research.ibm.com/interactive/dvsgesture in a browser "
        "and agree to its licence; no program can"
    ),
}
