package proof_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"bakeoff/base/suite"
	"bakeoff/provision/image"
	"bakeoff/reach/conn/local"
)

// TestImages builds the images of the tests that may not change the machine, and so cannot
// build them. make test runs it first, with all capabilities.
func TestImages(t *testing.T) {
	needs(t, map[string]string{"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs"})
	bookworm(t)
	bookworm(t, contained...)
}

// needs skips a test of images or machines where a program is missing.
func needs(t *testing.T, programs map[string]string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds an image or boots a machine: not with -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for program, pkg := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
}

// bookworm is Debian with these packages, as a disk, and its kernel for virtual machines.
func bookworm(t *testing.T, packages ...string) image.Root {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	store := image.Store{Dir: suite.ImageFolder(), Host: local.Conn{}}
	img, err := store.Get(ctx, image.Request{Ref: "debian:bookworm", Packages: packages, Disk: true, Kernel: true})
	if err != nil {
		t.Fatal(err)
	}
	return img
}
