package kernel

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/initramfs"
)

// maxConfig bounds the configuration of a kernel, in bytes. Debian's has 270,000.
const maxConfig = 4 << 20

// The marks around the configuration in a kernel that was built with CONFIG_IKCONFIG.
const (
	configBegin = "IKCFG_ST"
	configEnd   = "IKCFG_ED"
)

// maxMarks bounds how many marks are tried: a stranger could write a file of marks.
const maxMarks = 16

// ikconfig returns the configuration in a kernel, or nil.
func ikconfig(image []byte) []byte {
	for range maxMarks {
		at := bytes.Index(image, []byte(configBegin+"\x1f\x8b"))
		if at < 0 {
			return nil
		}
		image = image[at+len(configBegin):]
		end := bytes.Index(image[:min(len(image), maxConfig)], []byte(configEnd))
		if end < 0 {
			continue
		}
		z, err := gzip.NewReader(bytes.NewReader(image[:end]))
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(z, maxConfig+1))
		if err == nil && len(text) <= maxConfig {
			return text
		}
	}
	return nil
}

// State tells how a kernel has a feature.
type State string

const (
	BuiltIn State = "built-in"
	Module  State = "module"
	Missing State = "missing"
	Unknown State = "unknown"
)

// Feature is something that a Linux kernel can be built with.
type Feature struct {
	// Name is the option of the kernel's configuration, without CONFIG_.
	Name  string `json:"name"`
	What  string `json:"what"`
	State State  `json:"state"`
	// Source says where the state is from: one of the sources below, or empty if the
	// state is unknown.
	Source string `json:"source,omitempty"`
}

// The sources of states.
const (
	FromConfig   = "configuration" // a file beside the kernel
	FromIKConfig = "IKCONFIG"      // the configuration in the kernel
	FromModules  = "modules"
	FromKernel   = "kernel" // its notes and the names of its parameters
)

// features are what guests of bakeoff use.
var features = []struct{ name, module, what string }{
	{"PVH", "", "the entry for PVH in the ELF kernel"},
	{"VIRTIO_MMIO", "virtio_mmio", "virtio devices without PCI"},
	{"VIRTIO_MMIO_CMDLINE_DEVICES", "", "virtio devices that the command line names"},
	{"VIRTIO_BLK", "virtio_blk", "disks"},
	{"VIRTIO_NET", "virtio_net", "network"},
	{"VIRTIO_CONSOLE", "virtio_console", "the channel to the agent"},
	{"EXT4_FS", "ext4", "the file system of the root"},
	{"BLK_DEV_INITRD", "", "initial RAM disks"},
	{"BLK_DEV_LOOP", "loop", "a disk image in the initial RAM disk"},
	{"DEVTMPFS", "", "device files"},
	{"SERIAL_8250_CONSOLE", "", "a console on a serial line"},
	{"ACPI", "", "devices that ACPI names"},
}

// Beside is what lies beside a kernel and tells about it.
type Beside struct {
	// Config is the configuration, as the kernel's build wrote it.
	Config []byte
	// Modules is the folder lib/modules/VERSION.
	Modules fs.FS
}

// Learn sets the features of a Linux kernel: from the configuration beside it, from the
// one in it, from its modules, and from the kernel itself. What none of these tells is
// Unknown. Errors are of kind fault.Invalid.
func (i *Info) Learn(b Beside) error {
	if i.System != Linux {
		return nil
	}
	text, source := b.Config, FromConfig
	if text == nil {
		text, source = i.config, FromIKConfig
	}
	config, err := parseConfig(text)
	if err != nil {
		return fault.Wrap(fault.Invalid, "the configuration of the kernel", err)
	}
	var tree *initramfs.Tree
	if b.Modules != nil {
		if tree, err = initramfs.OpenTree(b.Modules); err != nil {
			return fault.Wrap(fault.Invalid, "the modules of the kernel", err)
		}
	}
	i.Features = nil
	for _, f := range features {
		x := Feature{Name: f.name, What: f.what, State: Unknown}
		switch {
		case config != nil:
			x.State, x.Source = stateOf(config[f.name]), source
		case f.name == "PVH" && i.ELF != nil && (i.Arch == "amd64" || i.Arch == "386"):
			x.State, x.Source = Missing, FromKernel
			if i.ELF.PVHEntry != nil {
				x.State = BuiltIn
			}
		case f.module != "" && tree != nil:
			if x.State = State(tree.State(f.module)); x.State != Unknown {
				x.Source = FromModules
			}
		case f.name == "VIRTIO_MMIO_CMDLINE_DEVICES":
			x.State, x.Source = i.namedDevices(tree)
		}
		i.Features = append(i.Features, x)
	}
	return nil
}

// namedDevices tells whether the kernel reads virtio_mmio.device from its command line:
// the name of the parameter is in the kernel, or in its module.
func (i *Info) namedDevices(t *initramfs.Tree) (State, string) {
	if i.params {
		return BuiltIn, FromKernel
	}
	if t == nil {
		return Unknown, ""
	}
	switch t.State("virtio_mmio") {
	case initramfs.BuiltIn:
		if i.ELF == nil {
			return Unknown, ""
		}
		return Missing, FromKernel
	case initramfs.Absent:
		return Missing, FromModules
	}
	params, err := t.Parameters("virtio_mmio")
	switch {
	case err != nil:
		return Unknown, ""
	case params["device"]:
		return Module, FromModules
	}
	return Missing, FromModules
}

func stateOf(value string) State {
	switch value {
	case "y":
		return BuiltIn
	case "m":
		return Module
	}
	return Missing
}

// parseConfig reads the configuration of a kernel: lines CONFIG_NAME=value. It returns
// nil for no text.
func parseConfig(text []byte) (map[string]string, error) {
	if text == nil {
		return nil, nil
	}
	if len(text) > maxConfig {
		return nil, fault.New(fault.Invalid, "the configuration has %d bytes; the limit is %d", len(text), maxConfig)
	}
	all := map[string]string{}
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, maxConfig)
	for s.Scan() {
		if name, value, ok := strings.Cut(strings.TrimPrefix(s.Text(), "CONFIG_"), "="); ok &&
			strings.HasPrefix(s.Text(), "CONFIG_") {
			all[name] = strings.TrimSpace(value)
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fault.WithFix(fault.New(fault.Invalid, "the file has no line CONFIG_NAME=value"),
			"name the configuration of the kernel, such as /boot/config-VERSION")
	}
	return all, nil
}
