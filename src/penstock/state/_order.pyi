import numpy as np
import numpy.typing as npt

def order_into(numbers: npt.NDArray[np.uint64], indices: npt.NDArray[np.int64]) -> None: ...
