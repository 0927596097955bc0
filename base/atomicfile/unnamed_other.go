//go:build !linux

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
)

// openUnnamed and linkUnnamed are for Linux.
func openUnnamed(*os.Root, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

func linkUnnamed(_, _ *os.File, _ string) error { return errors.ErrUnsupported }
