package compression

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// syncFS writes the file system of dir to its disk.
func syncFS(_ context.Context, dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}
