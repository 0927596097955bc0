package volume

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/unit"
)

// properties are the supported properties of a file system, by backing.
var properties = map[string][]string{
	ZFS:     {"ashift", "checksum", "compression", "logbias", "primarycache", "recordsize", "sync"},
	Dataset: {"checksum", "compression", "logbias", "primarycache", "recordsize", "sync"},
	Zvol:    {"checksum", "compression", "logbias", "primarycache", "sync", "volblocksize"},
	Btrfs:   {"compression", "force"},
	NFS:     {"version"},
}

// value is the form of a property: it becomes part of an option's text.
var value = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9.:_-]{0,39}$`)

// Check checks that the backing of a volume supports its properties. Errors are
// of kind fault.Invalid and list the properties.
func Check(v Volume) error {
	if least := fileSystems[v.Backing].least; v.Size < least {
		return fault.WithFix(fault.New(fault.Invalid, "volume %s: a volume with the backing %s needs at least %v "+
			"(got %v)", v.Path, v.Backing,
			least, v.Size), fmt.Sprintf("write size: %v", least))
	}
	if owned := v.Backing == Dataset || v.Backing == Zvol; owned && !poolForm.MatchString(v.Pool) {
		return fault.New(fault.Invalid, "volume %s: pool must be a dataset, such as tank/vm (got %q)", v.Path, v.Pool)
	}
	known := properties[v.Backing]
	for _, name := range slices.Sorted(maps.Keys(v.Properties)) {
		text := v.Properties[name]
		switch {
		case len(known) == 0:
			return fault.New(fault.Invalid, "volume %s: the backing %s cannot have properties", v.Path, v.Backing)
		case !slices.Contains(known, name):
			return fault.New(fault.Invalid, "volume %s: %s has no property %q; use one of %s", v.Path, v.Backing, name,
				strings.Join(known, ", "))
		case !value.MatchString(text):
			return fault.New(fault.Invalid, "volume %s: invalid value %q for %s", v.Path, text, name)
		case name == "force" && text != "true" && text != "false":
			return fault.New(fault.Invalid, "volume %s: force must be true or false (got %q)", v.Path, text)
		}
		if name == "version" && text != "4.1" && text != "4.2" {
			return fault.New(fault.Invalid, "volume %s: version must be 4.1 or 4.2 (got %q)", v.Path, text)
		}
		if name == "recordsize" || name == "volblocksize" {
			if _, err := blockSize(name, text); err != nil {
				return fault.Wrap(fault.Invalid, "volume "+v.Path, err)
			}
		}
	}
	return nil
}

// zfsValue is the value of a property as zfs(8) reads it. Check has read it.
func zfsValue(name, text string) string {
	if name == "recordsize" || name == "volblocksize" {
		text, _ = blockSize(name, text)
	}
	return text
}

// blockSize formats the size of a property for zfs(8).
func blockSize(name, text string) (string, error) {
	b, err := unit.ParseBytes(text)
	if err != nil {
		return "", err
	}
	if b < 512 || b > 16*unit.MiB || b&(b-1) != 0 {
		return "", fmt.Errorf("%s %s is not a power of two from 512B to 16MiB", name, text)
	}
	return strconv.FormatInt(int64(b), 10), nil
}
