package files

import (
	"errors"
	"io"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// descriptor is an open file.
type descriptor = windows.Handle

// The ways to open a file: to read it, to overwrite parts of it, and empty.
const (
	toRead = iota
	toUpdate
	toReplace
)

func openFile(path string, mode int) (descriptor, error) {
	access, disposition := uint32(windows.GENERIC_READ|windows.GENERIC_WRITE), uint32(windows.OPEN_EXISTING)
	switch mode {
	case toRead:
		access = windows.GENERIC_READ
	case toReplace:
		disposition = windows.CREATE_ALWAYS
	}
	return createFile(path, access, disposition)
}

func createFile(path string, access, disposition uint32) (descriptor, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return windows.InvalidHandle, err
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	return windows.CreateFile(name, access, share, nil, disposition, windows.FILE_ATTRIBUTE_NORMAL, 0)
}

func closeFile(h descriptor) error { return windows.CloseHandle(h) }

func syncFile(h descriptor) error { return windows.FlushFileBuffers(h) }

// rewindFile makes the next read or write without an offset start at the beginning.
func rewindFile(h descriptor) error {
	_, err := windows.Seek(h, 0, io.SeekStart)
	return err
}

// sizeOf returns the size of a file in bytes.
func sizeOf(h descriptor) (int64, error) {
	var info windows.ByHandleFileInformation
	err := windows.GetFileInformationByHandle(h, &info)
	return int64(info.FileSizeHigh)<<32 | int64(info.FileSizeLow), err
}

// at returns where to read or write; nil is the current offset.
func at(offset int64) *windows.Overlapped {
	if offset < 0 {
		return nil
	}
	return &windows.Overlapped{Offset: uint32(offset), OffsetHigh: uint32(offset >> 32)}
}

// readAt reads at offset, or at the current one with a negative one.
func readAt(h descriptor, b []byte, offset int64) (int, error) {
	var n uint32
	err := windows.ReadFile(h, b, &n, at(offset))
	if errors.Is(err, windows.ERROR_HANDLE_EOF) {
		err = nil
	}
	return int(n), err
}

// writeAt writes at offset, or at the current one with a negative one.
func writeAt(h descriptor, b []byte, offset int64) (int, error) {
	var n uint32
	err := windows.WriteFile(h, b, &n, at(offset))
	return int(n), err
}

// instant is a reading of the clock that times operations: the performance counter. Go's
// own clock has steps of half a millisecond on Windows, longer than an operation.
type instant = int64

var (
	kernel32     = windows.NewLazySystemDLL("kernel32.dll")
	queryCounter = kernel32.NewProc("QueryPerformanceCounter")
	// frequency is that of the counter, in 1/s. It is constant.
	frequency = func() (hz int64) {
		_, _, _ = kernel32.NewProc("QueryPerformanceFrequency").Call(uintptr(unsafe.Pointer(&hz)))
		return max(hz, 1)
	}()
)

// now never fails since Windows XP.
func now() (t instant) {
	_, _, _ = queryCounter.Call(uintptr(unsafe.Pointer(&t)))
	return t
}

// since returns the nanoseconds that have passed.
func since(t instant) int64 { return int64(float64(now()-t) / float64(frequency) * 1e9) }

// folder is the path of a directory: the Windows API has no names relative to an open one.
type folder struct{ path string }

func openFolder(path string) (folder, error) { return folder{path}, nil }

func (folder) close() {}

// create makes a new file.
func (f folder) create(name string) (descriptor, error) {
	return createFile(filepath.Join(f.path, name), windows.GENERIC_WRITE, windows.CREATE_NEW)
}

func (f folder) remove(name string) error {
	path, err := windows.UTF16PtrFromString(filepath.Join(f.path, name))
	if err != nil {
		return err
	}
	return windows.DeleteFile(path)
}

// size looks a file up and returns its size in bytes.
func (f folder) size(name string) (int64, error) {
	h, err := createFile(filepath.Join(f.path, name), windows.FILE_READ_ATTRIBUTES, windows.OPEN_EXISTING)
	if err != nil {
		return 0, err
	}
	n, err := sizeOf(h)
	return n, errors.Join(err, windows.CloseHandle(h))
}

// sync does nothing: Windows cannot flush a directory.
func (folder) sync() error { return nil }
