package local

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// NonBlocking does not exist on Windows: opening a pipe does not wait.
const NonBlocking = 0

var (
	pipeCount     atomic.Uint64
	peekNamedPipe = windows.NewLazySystemDLL("kernel32.dll").NewProc("PeekNamedPipe")
)

// pipeBytes is the capacity of a pipe of Linux.
const pipeBytes = 64 << 10

// OutputPipe is os.Pipe with a reader that has deadlines. On Windows that is a named pipe
// that only this machine reaches, and that has one instance.
func OutputPipe() (r, w *os.File, err error) {
	name := fmt.Sprintf(`\\.\pipe\bakeoff-%d-%d`, os.Getpid(), pipeCount.Add(1))
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, nil, err
	}
	ours, err := windows.CreateNamedPipe(path,
		windows.PIPE_ACCESS_INBOUND|windows.FILE_FLAG_FIRST_PIPE_INSTANCE|windows.FILE_FLAG_OVERLAPPED,
		windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, 1, pipeBytes, pipeBytes, 0, nil)
	if err != nil {
		return nil, nil, os.NewSyscallError("CreateNamedPipe", err)
	}
	theirs, err := windows.CreateFile(path, windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		_ = windows.CloseHandle(ours)
		return nil, nil, os.NewSyscallError("CreateFile", err)
	}
	return os.NewFile(uintptr(ours), "|0"), os.NewFile(uintptr(theirs), "|1"), nil
}

// ReadNow reads from the reader of OutputPipe without waiting, whatever its deadline was,
// and removes the deadline. It returns io.EOF if the pipe is empty or at its end.
func ReadNow(f *os.File, buf []byte) (n int, err error) {
	f.SetReadDeadline(time.Time{})
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var waiting uint32
	rerr := raw.Control(func(h uintptr) {
		if ok, _, _ := peekNamedPipe.Call(h, 0, 0, 0, uintptr(unsafe.Pointer(&waiting)), 0); ok == 0 {
			waiting = 0
		}
	})
	if rerr != nil || waiting == 0 {
		return 0, io.EOF
	}
	return f.Read(buf)
}
