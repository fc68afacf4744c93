"""A convolutional network on frames of events, followed by S5.

The paper's table of event data has a row CNN+S5 without a reference. State space models on convolutional features of
event frames are those of Zubić, Gehrig & Scaramuzza, State space models for event cameras, CVPR 2024
(arXiv 2402.15584), for detection; the S5 layer is that of Smith et al., ICLR 2023. The network of the row is not
published: its convolutions, the number of events or milliseconds in a frame and the depth are not known. This is the
nearest version: frames of a fixed number of events, the convolutions of S5's pendulum encoder, and S5 blocks.
"""

from dataclasses import dataclass
from typing import ClassVar

from s7.baselines.architecture import Architecture
from s7.baselines.drawn_layer import check_sizes
from s7.baselines.frames import FrameKind
from s7.baselines.s5 import S5
from s7.image_network import image_network, init_network
from s7.settings import Table


@dataclass(frozen=True)
class FrameCnn(FrameKind):
    """Features of the frame n_k, the number of events in each cell:

        z = relu(pool(K_1 * n_k) + c_1)        z = relu(pool(K_2 * z, stride 2) + c_2)        W z + c

    with convolutions of 5×5 and 3×3 cells, and maxima over 2×2. The S5 layers that follow read one vector per frame,
    and the time between frames.

    Args:
        channels: The number of channels of both convolutions.
    """

    channels: int = 12

    def __post_init__(self):
        super().__post_init__()
        check_sizes(self, "channels")

    def init(self, width, state, *, key, dtype):
        """Draw the kernels; biases are zero."""
        return init_network(self.grid, self.channels, width, key=key, dtype=dtype)

    def features(self, parameters, frames):
        """The features of each frame."""
        return image_network(parameters, frames)


class CnnS5(Architecture, name="cnn-s5"):
    """Convolutional network on frames of events, followed by S5; the nearest version of an unpublished model."""

    source = "Zubić et al. 2024, Smith et al. 2023"
    family = "state-space"
    settings: ClassVar[Table] = {
        **S5.settings,
        "encoder": {"kind": "FrameEncoder", "layer": {"kind": "FrameCnn"}},
        "stages": [{"depth": 1, "stride": 128, "pool": "last"}, {"depth": 2}],
    }
