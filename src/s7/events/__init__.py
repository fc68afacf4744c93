"""Event data: readers of recordings, spike encoding of audio, augmentation."""
