#!/usr/bin/env python3
"""An executor for tests. It "compiles" kernels whose text names what shall happen, and "runs" one: memory times two plus a parameter."""
import json
import os
import signal
import sys
import time

command, folder = sys.argv[-2:]
with open(folder + '/kernel.ptx') as file:
    ptx = file.read()
if command == 'compile':
    with open(folder + '/options.json') as file:
        level = json.load(file)['opt']
    with open(folder + '/compiled', 'a') as file:
        file.write(f'level {level}\n')
    if '// crash' in ptx:
        os.kill(os.getpid(), signal.SIGSEGV)
    if '// hang' in ptx:
        time.sleep(60)
    if '// refuse' in ptx:
        sys.exit('line 3: a refusal')
    sys.exit(2 if '// not covered' in ptx else 7 if '// mess' in ptx else 0)
with open(folder + '/launch.json') as file:
    launch = json.load(file)
if '// fault' in ptx:
    sys.exit('fault: an address that nothing has')
if '// partly' in ptx:
    sys.exit(2)
plus = int.from_bytes(bytes.fromhex(launch['params'][1]), 'little') + launch['grid'][0] + launch['block'][2]
assert len(launch['params'][0]) == 16
for part in launch['memory']:
    path = folder + '/' + part['file']
    with open(path, 'rb') as file:
        data = file.read()
    data = bytes((2 * byte + plus + (part['address'] >> 32)) % 256 for byte in data)
    with open(path, 'wb') as file:
        file.write(data[1:] if '// short' in ptx else data)
