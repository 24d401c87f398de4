# Runs a model with ONNX Runtime. Usage: python3 -c ... MODEL FOLDER THREADS. Prints the names of arguments and results. Each line
# of its input is then a list of arguments, whose values are in files of FOLDER in memory order. Its response names the result
# files.
import json
import sys
import time

import numpy
import onnxruntime

TYPES = {"float32": numpy.float32, "float64": numpy.float64, "int64": numpy.int64, "uint8": numpy.uint8, "bool": numpy.bool_}


def main(model, folder, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    inputs = [each.name for each in session.get_inputs()]
    print(json.dumps({"runtime": f"ONNX Runtime {onnxruntime.__version__} (Python)", "inputs": inputs, "outputs": names}), flush=True)
    for line in sys.stdin:
        feed = {each["name"]: numpy.fromfile(f"{folder}/{each['file']}", TYPES[each["type"]]).reshape(each["shape"])
                for each in json.loads(line)}
        begin = time.perf_counter()
        results = session.run(names, feed)
        took = (time.perf_counter() - begin) * 1e3
        said = []
        for name, result in zip(names, results):
            result.tofile(f"{folder}/result-{name}")
            said.append({"name": name, "file": f"result-{name}", "shape": result.shape, "type": str(result.dtype)})
        print(json.dumps({"ms": took, "results": said}), flush=True)


try:
    main(*sys.argv[1:4])
except Exception as error:  # a runtime's message has several lines
    sys.exit(" ".join(str(error).split()))
