package cli

import (
	"errors"
	"io"
	"os"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
)

// ReadSource reads a lab file or a published table; see Source.
func ReadSource(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "%s does not exist", path)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	defer f.Close()
	return Source(f, path)
}

// Source reads YAML from r, which errors call name. It reads at most one byte
// more than parsers accept, so that the parser reports the limit.
func Source(r io.Reader, name string) ([]byte, error) {
	src, err := io.ReadAll(io.LimitReader(r, yamltree.MaxSource+1))
	return src, fault.Wrap(fault.Invalid, name, err)
}
