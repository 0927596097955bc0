package env

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/image"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"
)

// elsewhere is a host that says what it is.
type elsewhere struct {
	Here
	arch string
}

func (e elsewhere) Machine() channel.Machine { return channel.Machine{GOOS: "linux", GOARCH: e.arch} }

// An image for another architecture is refused before it is built, since it
// would be built for this one.
func TestNoImageForAnotherArchitecture(t *testing.T) {
	m := &Manager{cfg: Config{Name: "box", Ship: &Ship{}}, at: elsewhere{Here{local.Conn{}}, "pdp11"}}
	_, err := m.Image(t.Context(), driver.Doc{Image: true}, "debian:bookworm", nil, nil)
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "the host box has the architecture pdp11") {
		t.Errorf("%v", err)
	}
	// A folder on that machine is not built here, nor sent there.
	img, err := m.Image(t.Context(), driver.Doc{Image: true, Folder: true}, "/usr/local/jails/base", nil, nil)
	if err != nil || img.Root != "/usr/local/jails/base" || img.Digest != "" {
		t.Errorf("%+v, %v", img, err)
	}
	m.at = elsewhere{Here{local.Conn{}}, runtime.GOARCH}
	if err := m.alike(); err != nil {
		t.Error(err)
	}
}

// An image that cannot be built is built once, whatever number of contenders has it.
func TestAFailedImageIsNotTriedAgain(t *testing.T) {
	dir := t.TempDir()
	m := &Manager{cfg: Config{Name: "local"}, at: Here{local.Conn{}}, images: &image.Store{Dir: dir, Host: local.Conn{}}}
	root := filepath.Join(t.TempDir(), "root")
	get := func(path string) error {
		_, err := m.Image(t.Context(), driver.Doc{Image: true}, "rootfs:"+path, nil, nil)
		return err
	}
	first := get(root)
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if again := get(root); first == nil || again != first {
		t.Errorf("first %v, then %v: want the first error, without another attempt", first, again)
	}
	if err := get(root + "/."); err != nil {
		t.Errorf("the control, another name of the root: %v", err)
	}
}
