"""The thread that makes all calls of an engine, and jobs for it."""
import ctypes as c
import os
import queue
import threading

from ._library import CancelledError, lib


class Worker:
    """One thread, kept: each that computes has a team of OpenMP's threads. Who waits for it can be interrupted."""

    def __init__(self):
        self.engine = c.c_void_p()
        self.process = os.getpid()
        self.jobs = queue.SimpleQueue()
        self.lock = threading.RLock()  # the garbage collector may call close inside of it
        self.running = None
        self.closed = False
        self.thread = threading.Thread(target=self.work, name="sparge_gen", daemon=True)
        self.thread.start()

    def work(self):
        while (job := self.jobs.get()) is not None:
            with self.lock:
                self.running = job
            end = End()
            try:
                if job.cancelled or self.closed:
                    raise CancelledError("the engine was closed")
                end.result = job.work(job.emit)
            except BaseException as e:
                end.error = e
            with self.lock:
                self.running = None
                self.cancel_call(False)  # that came too late
            job.emit(end)
            del job, end
        lib.sg_engine_close(c.byref(self.engine))

    def cancel_call(self, on):
        if self.engine:
            lib.sg_engine_cancel(self.engine, on)

    def is_here(self):
        """A process that was forked has no thread but the one that forked."""
        return os.getpid() == self.process

    def submit(self, job):
        with self.lock:
            if self.closed:
                raise ValueError("the engine is closed")
            self.jobs.put(job)

    def cancel(self, job):
        with self.lock:
            job.cancelled = True
            if self.running is job:
                self.cancel_call(True)

    def close(self):
        if not self.is_here():
            return
        with self.lock:
            self.closed = True
            if self.running:
                self.cancel_call(True)
            self.jobs.put(None)
        if threading.current_thread() is not self.thread:
            self.thread.join()


class End:
    result = error = None


class Job:
    """Work for the worker. Who iterates over a job gets what it emits. The first step starts it; where the
    loop is left, by an exception too, it is cancelled and waited for."""

    def __init__(self, worker, function=None):
        self.worker, self.function, self.cancelled = worker, function, False
        self.events = queue.SimpleQueue()
        self.emit = self.events.put

    def work(self, emit):
        return self.function()

    def __iter__(self):
        self.need_thread()
        self.worker.submit(self)
        try:
            while not isinstance(event := self.events.get(), End):
                yield event
                self.need_thread()
        except BaseException:
            if not self.worker.is_here():
                raise
            self.worker.cancel(self)
            while not isinstance(self.events.get(), End):
                pass
            raise
        if event.error:
            raise event.error
        self.result = event.result

    def need_thread(self):
        if not self.worker.is_here():
            raise RuntimeError("the engine is of the process that forked this one; open another here")

    def finish(self):
        for _ in self:
            pass
        return self.result
