package nsenter

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// A socket that has its name listens: a client that finds it is never refused.
func TestASocketWithANameListens(t *testing.T) {
	dir := t.TempDir()
	for i := range 300 {
		socket := filepath.Join(dir, strconv.Itoa(i))
		dialed := make(chan error, 1)
		go func() {
			for {
				c, err := net.Dial("unix", socket)
				if err == nil {
					c.Close()
				}
				if !errors.Is(err, os.ErrNotExist) {
					dialed <- err
					return
				}
			}
		}()
		fd, err := listenAt(socket)
		if err != nil {
			t.Fatal(err)
		}
		err = <-dialed
		syscall.Close(fd)
		if err != nil {
			t.Fatalf("the client of socket %d: %v", i, err)
		}
	}
}
