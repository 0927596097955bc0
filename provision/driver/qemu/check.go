package qemu

import (
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/agent"
)

// minMemory is what a kernel, its RAM disk and the agent need to come up.
const minMemory = 96 * unit.MiB

// Validate refuses what Create would refuse on any host, for driver.Validator.
func (Driver) Validate(spec driver.Spec) error {
	return validate(spec, settings(spec.Options))
}

// validate refuses what no machine can be made from, before anything is
// made.
func validate(spec driver.Spec, set param.Values) error {
	invalid := func(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }
	switch {
	case spec.CPUs < 1:
		return invalid("%d processors; a machine has at least one", spec.CPUs)
	case spec.Memory%unit.MiB != 0:
		return invalid("memory %v is not a whole number of MiB", spec.Memory)
	case spec.Memory < minMemory:
		return invalid("memory %v; a guest needs at least %v", spec.Memory, minMemory)
	case spec.Image.Disk == "":
		return invalid("a machine boots from an image; name one, as image: debian:bookworm")
	case spec.Image.Kernel == "" && set.Text(optKernel) == "":
		return invalid("the image has no kernel; name one with the option %s", optKernel)
	case set.Text(optKernel) != "" && !path.IsAbs(set.Text(optKernel)):
		return invalid("%s: %q is not an absolute path", optKernel, set.Text(optKernel))
	case strings.ContainsFunc(set.Text(optAppend), func(r rune) bool { return r < ' ' || r > '~' }):
		return invalid("%s: %q has other than printable ASCII characters", optAppend, set.Text(optAppend))
	case len(path.Join(spec.Dir, socketMonitor)) > maxSocketPath:
		return fault.WithFix(fault.New(fault.Lab, "the directory %s is too long for a socket in it", spec.Dir),
			"set BAKEOFF_STATE to a shorter path")
	}
	for _, v := range spec.Volumes {
		if err := validateVolume(v); err != nil {
			return err
		}
	}
	return validateStorage(set)
}

func validateVolume(v driver.Volume) error {
	switch {
	case !path.IsAbs(v.Path) || path.Clean(v.Path) == "/":
		return fault.New(fault.Invalid, "volume %q: write an absolute path below /", v.Path)
	case !slices.Contains([]string{volume.Tmpfs, volume.Ext4, volume.Disk}, v.Backing):
		return fault.New(fault.Unsupported, "volume %s: a machine cannot have a volume of backing %s; there are %s, %s and %s",
			v.Path, v.Backing, volume.Tmpfs, volume.Ext4, volume.Disk)
	case v.Backing == volume.Disk && !path.IsAbs(v.Device):
		return fault.New(fault.Invalid, "volume %s: %q is not the path of a block device", v.Path, v.Device)
	}
	return nil
}

// initConfig is what the agent does as init of this machine.
func initConfig(spec driver.Spec) agent.InitConfig {
	c := agent.InitConfig{Schema: agent.InitSchema, Port: portName, Root: rootSerial, RootType: "ext4", Hostname: "guest"}
	for i, v := range spec.Volumes {
		iv := agent.InitVolume{Path: v.Path, Type: "ext4", Serial: volumeSerial(i)}
		if v.Backing == volume.Tmpfs {
			iv = agent.InitVolume{Path: v.Path, Type: "tmpfs", Size: v.Size}
		}
		c.Volumes = append(c.Volumes, iv)
	}
	if n := spec.Network; n != nil {
		c.Network = &agent.InitNetwork{MAC: n.MAC, Addr: n.Addr}
	}
	for name, value := range spec.Tuning {
		c.Sysctl = append(c.Sysctl, agent.InitSetting{Name: name, Value: value})
	}
	slices.SortFunc(c.Sysctl, func(a, b agent.InitSetting) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// modulesDir is where the kernel's modules are on the host: those of the
// image belong to the image's kernel only.
func modulesDir(spec driver.Spec, set param.Values) string {
	if m := set.Text(optModules); m != "" || set.Text(optKernel) != "" {
		return m
	}
	return spec.Image.Modules
}

// volumesInside maps declared paths to themselves: a guest has them there.
func volumesInside(spec driver.Spec) map[string]string {
	m := map[string]string{}
	for _, v := range spec.Volumes {
		m[v.Path] = v.Path
	}
	return m
}
