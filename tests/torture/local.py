# SPDX-License-Identifier: GPL-2.0-or-later
"""For tests of the torture without machines: a node whose programs run here, on a file in place of the array."""
import os
import pathlib
import subprocess
import threading
import types

SOURCE = pathlib.Path(__file__).resolve().parent / "stamp.c"


def build(directory):
    target = directory / "stamp"
    subprocess.run(["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-o", target, SOURCE], check=True)
    return target


class LocalGuest:
    """Stands for a node. `disk`: the file that all nodes share."""

    def __init__(self, directory, program, disk):
        directory.mkdir(exist_ok=True)
        self.directory, self.program, self.disk, self.channel = directory, str(program), str(disk), self
        self.jobs = []

    def put(self, path, text):
        (self.directory / os.path.basename(path)).write_text(text)

    def file_op(self, head, body, timeout):
        del timeout
        with open(self.directory / os.path.basename(head["path"]), "ab") as file:
            file.write(body)

    def _words(self, command):
        words = command.removeprefix("exec ").split()
        words[0], words[2] = self.program, self.disk
        return words

    def run(self, command, timeout, stdin):
        done = subprocess.run(self._words(command), input=stdin, capture_output=True, text=True, timeout=timeout, check=True)
        return types.SimpleNamespace(out=done.stdout)

    def spawn(self, command, stdin):
        words = self._words(command)
        words[3] = str(self.directory / os.path.basename(words[3]))
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdin.write(stdin.encode())
        process.stdin.close()
        job = types.SimpleNamespace(process=process, poll=process.poll, err="")

        def listen(heard):
            def read():
                while data := process.stdout.read1(65536):
                    heard(1, data)
            job.thread = threading.Thread(target=read, daemon=True)
            job.thread.start()
        job.listen = listen
        self.jobs.append(job)
        return job

    def kill(self):
        """The machine loses its power."""
        for job in self.jobs:
            job.process.kill()
            job.process.wait()
            job.thread.join()

    def close(self):
        for job in self.jobs:
            job.process.wait()
            job.process.stdout.close()
