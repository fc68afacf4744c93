"""Comparisons with up to ten minutes of one core per run, and ablations with five seeds.

    python -m benchmarks.studies --run long --jobs 2

runs all of them, about 40 hours of one core. Repeat the command to continue after an interruption. The learning rate of
every model is chosen by the same search on validation data, with four short trials.
"""

from benchmarks.study_entry import StudyEntry

_TEN = "--minutes 10 --seeds 3 --search learning_rate=1e-3,3e-3,1e-2,3e-2 --search-share 0.15"
# For human-activity, where the validation accuracy of most runs peaks well before the end of a minute.
_ONE = "--minutes 1 --seeds 3 --search learning_rate=1e-3,3e-3,1e-2,3e-2 --search-share 0.25"
_S7 = "s7,s7-full"
# The models of the paper's tables for sensor data, from ODE-LSTM, without the bidirectional one.
_ODE_LSTM = "ode-rnn,ct-rnn,augmented-lstm,ct-gru,rnn-decay,gru-d,phased-lstm,gru-ode,ct-lstm"
_ACTIVITY = f"{_S7},s5,bi-rnn,{_ODE_LSTM},ode-lstm"
_PARTS = (
    "no reparameterization,a=0.5 b=0.5,a=1 b=1,Λ static,B static,C static,D static,all static,full form,no gain,no gate"
)
_ABLATION = f"--seeds 5 --only '{_PARTS}'"
_ABLATION_OF_GAPS = f"--seeds 5 --only '{_PARTS},dt ignored'"

# Each comparison has the models of the paper's table for its task, and the model that was closest to S7 in a minute.
LONG_STUDIES = (
    StudyEntry("walker2d-long", f"compare walker2d {_TEN} --models {_S7},transformer,{_ODE_LSTM}"),
    StudyEntry("pendulum-long", f"compare pendulum {_TEN} --models {_S7},s5,rkn,rkn-dt,cru,gru-d"),
    # The learning rates of these small models are higher.
    StudyEntry(
        "fitzhugh-nagumo-long",
        "compare fitzhugh-nagumo --minutes 10 --seeds 3 --search learning_rate=3e-3,1e-2,3e-2,1e-1 --search-share 0.15 "
        f"--set data.tolerance=1e-7 --models {_S7},s5,lem,cornn,lipschitz-rnn,fastgrnn,exprnn,lstm,lru",
    ),
    StudyEntry("nmnist-long", f"compare nmnist {_TEN} --models {_S7},eventssm,cnn-s5,bet,lru"),
    StudyEntry("spoken-digits-long", f"compare spoken-digits {_TEN} --models {_S7},eventssm,lsn,sgn,cnn-s5,lru"),
    StudyEntry("human-activity-long", f"compare human-activity {_ONE} --models {_ACTIVITY}"),
    # The other two of the three recordings for testing, with S7 and five models that were better on the first.
    *(
        StudyEntry(
            f"human-activity-split-{split}-long",
            f"compare human-activity {_ONE} --set data.split={split} --models "
            "s7,s5,phased-lstm,ct-lstm,ode-lstm,augmented-lstm",
        )
        for split in (1, 2)
    ),
    # Without displaced tags, as published.
    StudyEntry(
        "human-activity-paper-long",
        f"compare human-activity --protocol paper {_ONE} --set data.augment=PositionAugmentation --models {_ACTIVITY}",
    ),
    # A fifth of the frames instead of half of them: gaps of up to dozens of frames.
    StudyEntry(
        "pendulum-sparse-long",
        f"compare pendulum {_TEN} --set data.frames=20 --models {_S7},s5,cru,gru-d",
    ),
    # Equal time and equal steps.
    StudyEntry("ablation-walker2d-time", f"ablate walker2d --minutes 1 {_ABLATION_OF_GAPS}"),
    StudyEntry("ablation-walker2d-steps", f"ablate walker2d --steps 2000 {_ABLATION_OF_GAPS}"),
    StudyEntry("ablation-nmnist-time", f"ablate nmnist --minutes 1 {_ABLATION_OF_GAPS}"),
    StudyEntry("ablation-nmnist-steps", f"ablate nmnist --steps 2000 {_ABLATION_OF_GAPS}"),
    StudyEntry("ablation-text-time", f"ablate text --minutes 2 {_ABLATION}"),
    StudyEntry("ablation-text-steps", f"ablate text --steps 500 {_ABLATION}"),
)
