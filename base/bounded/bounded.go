// Package bounded reads files whose size a stranger or an accident may have chosen.
package bounded

import (
	"io"
	"os"

	"bakeoff/base/fault"
)

// ReadFile returns the content of a file. If the file has more than most bytes, the error is of
// kind fault.Invalid.
func ReadFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return readAll(f, name, most)
}

// ReadIn is ReadFile for a file in a root.
func ReadIn(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	return readAll(f, name, most)
}

func readAll(f *os.File, name string, most int64) ([]byte, error) {
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, fault.New(fault.Invalid, "%s has more than %d bytes", name, most)
	}
	return b, err
}
