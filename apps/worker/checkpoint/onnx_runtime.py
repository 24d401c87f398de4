# Computes batches with ONNX Runtime. Usage: python3 - FOLDER, which has run.json and the arguments as plain numbers in memory
# order. Writes the results the same way, and says their shapes.
import json
import sys
import time

import numpy
import onnxruntime

TYPES = {"float32": numpy.float32, "float64": numpy.float64, "int64": numpy.int64, "uint8": numpy.uint8, "bool": numpy.bool_}
folder = sys.argv[1]
run = json.load(open(f"{folder}/run.json"))
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = run["threads"]
options.log_severity_level = 3
session = onnxruntime.InferenceSession(run["model"], options, providers=["CPUExecutionProvider"])
names = [output.name for output in session.get_outputs()]
batches = []
for number, batch in enumerate(run["batches"]):
    feed = {each["name"]: numpy.fromfile(f"{folder}/{each['file']}", TYPES[each["type"]]).reshape(each["shape"]) for each in batch}
    results = session.run(names, feed)
    begin = time.perf_counter()
    session.run(names, feed)
    took = (time.perf_counter() - begin) * 1e3
    said = []
    for name, result in zip(names, results):
        file = f"result-{number}-{name}"
        result.tofile(f"{folder}/{file}")
        said.append({"name": name, "file": file, "shape": result.shape, "type": str(result.dtype)})
    batches.append({"ms": took, "results": said})
print(json.dumps({"runtime": f"ONNX Runtime {onnxruntime.__version__} (Python)", "batches": batches}))
