package qemu

import (
	"context"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// minMemory is what a kernel, its RAM disk and the agent need to come up.
const minMemory = 96 * unit.MiB

// Validate implements driver.Validator.
func (Driver) Validate(spec driver.Spec) error {
	o, err := decode(spec.Options)
	if err != nil {
		return err
	}
	return validate(spec, o)
}

// ValidateOn implements driver.HostValidator: the file of a kernel says what its system
// can be given.
func (Driver) ValidateOn(ctx context.Context, host conn.Conn, spec driver.Spec) error {
	o, err := decode(spec.Options)
	if err == nil {
		o, _, err = resolve(ctx, host, nil, o)
	}
	if err != nil {
		return err
	}
	return o.unable(spec)
}

// validate refuses what no host could create.
func validate(spec driver.Spec, o options) error {
	invalid := func(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }
	if err := guest.Check((Driver{}).Doc(), spec, minMemory); err != nil {
		return err
	}
	for option, name := range o.files() {
		if name != "" && !path.IsAbs(name) {
			return invalid("%s must be an absolute path (got %q)", option, name)
		}
	}
	if err := o.validateRAMDisk(); err != nil {
		return err
	}
	if err := o.validateReady(); err != nil {
		return err
	}
	if err := o.validateDebugPort(); err != nil {
		return err
	}
	switch {
	case o.onInstructions():
		if err := o.validateClock(spec); err != nil {
			return err
		}
	case o.own():
		if err := o.validateOwn(spec); err != nil {
			return err
		}
	case o.system != systemAuto:
		return fault.WithFix(fault.New(fault.Invalid, "%s: the guest of an image is Linux", optSystem), "remove "+optSystem)
	case spec.Image.Disk == "":
		return invalid("a machine boots from an image or a disk; name one, such as image: debian:bookworm")
	case spec.Image.Kernel == "" && o.kernel == "":
		return invalid("the image has no kernel; name one with the option %s", optKernel)
	case o.channel == channelDial:
		return fault.WithFix(fault.New(fault.Invalid, "%s: the agent of an image answers on a virtio port, not by %s",
			optChannel, channelDial), "remove "+optChannel)
	}
	switch {
	case strings.ContainsFunc(o.append, func(r rune) bool { return r < ' ' || r > '~' }):
		return invalid("%s: write printable ASCII characters only (got %q)", optAppend, o.append)
	case len(path.Join(spec.Dir, socketMonitor)) > maxSocketPath:
		return fault.WithFix(fault.New(fault.Lab, "the path %s is too long for a socket", spec.Dir),
			"set BAKEOFF_STATE to a shorter path")
	}
	return o.validateStorage()
}

// initConfig is what the agent does as init of this machine.
func initConfig(spec driver.Spec) wire.InitConfig {
	serials := make([]string, len(spec.Volumes))
	for i := range serials {
		serials[i] = volumeSerial(i)
	}
	return guest.InitConfig(spec, portName, rootSerial, serials)
}

// modulesDir is the directory of the kernel's modules on the host. The image's
// modules are for the image's kernel only.
func modulesDir(spec driver.Spec, o options) string {
	if o.modules != "" || o.kernel != "" {
		return o.modules
	}
	return spec.Image.Modules
}
