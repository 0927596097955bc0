package env

import (
	"runtime"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
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
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "box is pdp11") {
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
