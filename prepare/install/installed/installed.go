// Package installed describes an installed machine as data, so that a report of one
// machine can be judged on another.
package installed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
)

// Schema is the version of System.
const Schema = 1

// maxFacts bounds a file of facts, in bytes.
const maxFacts = 16 << 20

// System is an installed machine. What is unknown is nil, empty or null. Paths without a
// leading slash are below the root of the system.
type System struct {
	Schema      int                          `json:"schema"`
	OS          OS                           `json:"os"`
	RAMBytes    int64                        `json:"ram_bytes"`
	Firmware    Firmware                     `json:"firmware"`
	Tools       map[string]string            `json:"tools"` // versions
	Disks       []Disk                       `json:"disks"`
	Blkid       map[string]map[string]string `json:"blkid"` // by device
	Mounts      []Mount                      `json:"mounts"`
	Swaps       []Swap                       `json:"swaps"`
	Pools       map[string]Pool              `json:"zpool"`
	Datasets    map[string]Dataset           `json:"zfs"`
	Snapshots   Snapshots                    `json:"snapshots,omitempty"`
	EFI         *EFI                         `json:"efibootmgr"`
	ESPFiles    map[string]map[string]string `json:"esp_files"` // digests by PARTUUID and path
	Kernels     []Kernel                     `json:"kernels"`
	Initramfs   map[string]Initramfs         `json:"initramfs"` // by path
	UKI         []UKI                        `json:"uki,omitempty"`
	ZBM         *ZBM                         `json:"zbm,omitempty"`
	Packages    map[string]string            `json:"packages"` // versions
	Services    []string                     `json:"services"` // those that are enabled
	Modes       map[string]string            `json:"modes"`    // octal, by absolute path
	Files       map[string]File              `json:"files"`    // of the configuration, by path
	Hibernation bool                         `json:"hibernation"`
	Bootloader  string                       `json:"bootloader,omitempty"` // "" with ZBM: ZFSBootMenu
}

// OS is the operating system. Init is systemd, runit or another program.
type OS struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	Arch    string `json:"arch"`
	Init    string `json:"init"`
	Libc    string `json:"libc,omitempty"`
}

// Firmware is what starts the machine.
type Firmware struct {
	Mode       string `json:"mode"` // uefi or bios
	EFIVars    *bool  `json:"efivars"`
	SecureBoot *bool  `json:"secure_boot"`
	// MOK are the keys of the machine owner that are enrolled, and that of the vendor of shim; nil is
	// unknown.
	MOK   []Certificate `json:"mok"`
	Dumps int           `json:"dumps,omitempty"` // of messages of the kernel, as variables
}

// Certificate is a certificate of a key. Serial is its serial number, as modinfo writes it: AB:00:CD.
type Certificate struct {
	Subject string `json:"subject"` // its common name
	Serial  string `json:"serial"`
}

// LinkFolder has names of disks that do not change.
const LinkFolder = "/dev/disk/by-id/"

// Disk is a disk with a GPT. Sizes are bytes; Logical and Physical are its sectors.
type Disk struct {
	Name       string      `json:"name"`
	ByID       string      `json:"by_id"`
	Links      []string    `json:"links,omitzero"` // other names below LinkFolder
	Serial     string      `json:"serial"`
	Size       int64       `json:"size"`
	Logical    int64       `json:"logical"`
	Physical   int64       `json:"physical"`
	Rotational *bool       `json:"rotational"`
	Discard    bool        `json:"discard"`
	Separator  string      `json:"sep"` // between the name of the disk and a partition's number
	Partitions []Partition `json:"partitions"`

	// What plan needs to know before a disk is overwritten; nil is unknown.
	System     *bool    `json:"system,omitempty"`    // holds the running system
	Users      []string `json:"users,omitzero"`      // what uses it: "mounted on /", "pool tank"
	Signatures []string `json:"signatures,omitzero"` // what wipefs finds on it and its partitions
}

// Partition is a partition. Start is in logical sectors, Size in bytes.
type Partition struct {
	Number   int    `json:"n"`
	Device   string `json:"dev"`
	Type     string `json:"type"` // GUID
	PartUUID string `json:"partuuid"`
	Start    int64  `json:"start"`
	Size     int64  `json:"size"`
	Label    string `json:"label"`
}

// TypeESP is the GUID of an EFI system partition.
const TypeESP = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"

// Mount is a mounted filesystem.
type Mount struct {
	Source  string `json:"source"`
	Target  string `json:"target"`
	Type    string `json:"fstype"`
	Options string `json:"options,omitempty"`
}

// Swap is active swap space; Size is in bytes.
type Swap struct {
	Device string `json:"dev"`
	Size   int64  `json:"size"`
}

// Pool is a ZFS pool.
type Pool struct {
	Props    map[string]string `json:"props"`
	Features map[string]string `json:"features"` // disabled, enabled or active
	VDevs    []string          `json:"vdevs"`
	Label    Label             `json:"label"`
}

// Label is what the label of a pool says of the machine that wrote it last.
type Label struct {
	HostID   string `json:"hostid"`
	Hostname string `json:"hostname"`
}

// Dataset is the properties of a dataset.
type Dataset map[string]Property

// Property is the value of a property and where it comes from: local, default,
// "inherited from X", "-", or "" where that is not known. Unknown is a value that is null.
type Property struct {
	Value, Source string
	Unknown       bool
}

// Local reports whether the value was set on the dataset itself.
func (p Property) Local() bool { return p.Source == "local" || p.Source == "received" }

// UnmarshalJSON reads "value" or ["value", "source"], each of which may be null.
func (p *Property) UnmarshalJSON(data []byte) error {
	var value *string
	if json.Unmarshal(data, &value) == nil {
		*p = Property{Unknown: value == nil}
		if value != nil {
			p.Value = *value
		}
		return nil
	}
	var pair []*string
	if err := json.Unmarshal(data, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("a property must be a string or [value, source] (got %.60s)", oneLine(data))
	}
	*p = Property{Unknown: pair[0] == nil}
	if pair[0] != nil {
		p.Value = *pair[0]
	}
	if pair[1] != nil {
		p.Source = *pair[1]
	}
	return nil
}

// oneLine returns JSON without space between its parts.
func oneLine(data []byte) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return data
	}
	return b.Bytes()
}

// MarshalJSON writes what UnmarshalJSON reads.
func (p Property) MarshalJSON() ([]byte, error) {
	var value any = p.Value
	if p.Unknown {
		value = nil
	}
	if p.Source == "" {
		return json.Marshal(value)
	}
	return json.Marshal([]any{value, p.Source})
}

// Snapshots are the names of snapshots, DATASET@NAME.
type Snapshots []string

// UnmarshalJSON reads a list of names, a list of objects with a name, or an object by name.
func (s *Snapshots) UnmarshalJSON(data []byte) error {
	var byName map[string]json.RawMessage
	if json.Unmarshal(data, &byName) == nil {
		*s = slices.Sorted(maps.Keys(byName))
		return nil
	}
	var objects []struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(data, &objects) == nil {
		for _, o := range objects {
			*s = append(*s, o.Name)
		}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(s))
}

// EFI is the boot variables of the firmware. Order is nil if it is unknown, and empty if the firmware has none.
type EFI struct {
	Current string     `json:"boot_current"`
	Order   []string   `json:"boot_order"`
	Entries []EFIEntry `json:"entries"`
}

// EFIEntry is an entry BootNNNN. Loader has backslashes.
type EFIEntry struct {
	Number   string `json:"num"`
	Active   *bool  `json:"active"`
	Label    string `json:"label"`
	PartUUID string `json:"partuuid"`
	Loader   string `json:"loader"`
}

// Kernel is an installed kernel. ZFSModule is nil where nobody looked.
type Kernel struct {
	Version          string `json:"version"`
	Image            string `json:"image"`
	Initramfs        string `json:"initramfs"`
	ZFSModule        *bool  `json:"zfs_module"`
	ZFSModuleVersion string `json:"zfs_module_version,omitempty"`
	// ZFSModuleKey is the serial number of the certificate that signed the module, "" if nothing did.
	ZFSModuleKey *string `json:"zfs_module_key,omitempty"`
}

// Initramfs is what an initial RAM disk contains.
type Initramfs struct {
	Mode      string          `json:"mode"` // octal
	Modules   []string        `json:"modules"`
	Files     []string        `json:"files"`
	HostID    *string         `json:"hostid"`
	Crypttab  *string         `json:"crypttab"`
	PoolCache json.RawMessage `json:"zpool_cache"`
	ZFSModule *bool           `json:"zfs_ko"`
}

// UKI is a unified kernel image.
type UKI struct {
	Path    string   `json:"path"`
	Kernel  string   `json:"kernel"`
	Cmdline string   `json:"cmdline"`
	Files   []string `json:"files"` // in its initial RAM disk
}

// ZBM is an installed ZFSBootMenu.
type ZBM struct {
	Version string `json:"version"`
	OpenZFS string `json:"openzfs"` // the version inside
	Signed  *bool  `json:"signed"`
}

// Read reads facts. name is what errors call the file. Unknown fields are ignored, so that
// facts of a later program can be read.
func Read(name string, r io.Reader) (System, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFacts+1))
	if err != nil {
		return System{}, fault.Op(name, err)
	}
	if len(data) > maxFacts {
		return System{}, fault.New(fault.Invalid, "%s: the facts have more than %d MiB", name, maxFacts>>20)
	}
	var s System
	if err := json.Unmarshal(data, &s); err != nil {
		return System{}, fault.WithFix(fault.New(fault.Invalid, "%s%s", name, jsonProblem(data, err)),
			"docs/special/zfs-root.md describes the facts")
	}
	if s.Schema == 0 {
		return System{}, fault.WithFix(
			fault.New(fault.Invalid, `%s: the facts must be a JSON object with "schema": %d`, name, Schema),
			"docs/special/zfs-root.md describes the facts")
	}
	if s.Schema != Schema {
		return System{}, fault.WithFix(
			fault.New(fault.Invalid, "%s: the facts have schema %d, but this program reads schema %d", name, s.Schema, Schema),
			"docs/special/zfs-root.md describes the facts")
	}
	return s, nil
}

// jsonProblem says where in data an error of encoding/json is.
func jsonProblem(data []byte, err error) string {
	offset := int64(-1)
	text := err.Error()
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = e.Offset
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = e.Offset
		text = fmt.Sprintf("%s must not be a JSON %s", cmp.Or(e.Field, "the facts"), e.Value)
	} else if dataset, prop, err := wrongProperty(data); err != nil {
		offset = offsetOf(data, "zfs", dataset, prop)
		text = fmt.Sprintf("zfs %q %s: %v", dataset, prop, err)
	}
	if offset < 0 || offset > int64(len(data)) {
		return ": " + text
	}
	return fmt.Sprintf(":%d: %s", 1+bytes.Count(data[:offset], []byte("\n")), text)
}

// wrongProperty returns the first property of a dataset that cannot be read, and why.
func wrongProperty(data []byte) (dataset, prop string, err error) {
	var facts struct {
		Datasets map[string]map[string]json.RawMessage `json:"zfs"`
	}
	if json.Unmarshal(data, &facts) != nil {
		return "", "", nil
	}
	for _, dataset := range slices.Sorted(maps.Keys(facts.Datasets)) {
		for _, prop := range slices.Sorted(maps.Keys(facts.Datasets[dataset])) {
			if err := new(Property).UnmarshalJSON(facts.Datasets[dataset][prop]); err != nil {
				return dataset, prop, err
			}
		}
	}
	return "", "", nil
}

// offsetOf returns the offset of a key in JSON that encoding/json reads. Each key before it is that of
// the object that contains the next one.
func offsetOf(data []byte, keys ...string) int64 {
	d := json.NewDecoder(bytes.NewReader(data))
	for _, key := range keys {
		if _, err := d.Token(); err != nil {
			return -1
		}
		for d.More() {
			if t, err := d.Token(); err != nil {
				return -1
			} else if t == key {
				break
			}
			if err := d.Decode(new(json.RawMessage)); err != nil {
				return -1
			}
		}
	}
	return d.InputOffset()
}

// Names returns the names of datasets in order.
func (s System) Names() []string { return slices.Sorted(maps.Keys(s.Datasets)) }

// PoolOf returns the pool of a dataset.
func PoolOf(dataset string) string {
	pool, _, _ := strings.Cut(dataset, "/")
	return pool
}

// Parent returns the parent of a dataset, "" for a pool.
func Parent(dataset string) string {
	i := strings.LastIndexByte(dataset, '/')
	return dataset[:max(i, 0)]
}

// Partition returns the partition of a device, and its disk.
func (s System) Partition(device string) (Partition, Disk, bool) {
	for _, d := range s.Disks {
		for _, p := range d.Partitions {
			if p.Device == device {
				return p, d, true
			}
		}
	}
	return Partition{}, Disk{}, false
}

// partEnd matches the last letter of a disk's name and what the name of a partition, or of a slice of BSD, adds.
var partEnd = lazy.Compile(`^([^0-9][0-9]+|[0-9](p[0-9]+|[a-p]))$`)

// Names returns the known names of the disk below LinkFolder.
func (d Disk) Names() []string {
	return slices.DeleteFunc(append([]string{d.ByID}, d.Links...), func(name string) bool { return name == "" })
}

// Has reports whether a device is the disk or a part of it. zpool status shows names without their folder.
func (d Disk) Has(dev string) bool {
	if !strings.Contains(dev, "/") {
		return slices.ContainsFunc([]string{"/dev/", "/dev/disk/by-id/", "/dev/disk/by-partuuid/"}, func(folder string) bool {
			return d.Has(folder + dev)
		})
	}
	node := "/dev/" + d.Name
	if dev == node || strings.HasPrefix(dev, node) && partEnd.MatchString(dev[len(node)-1:]) {
		return true
	}
	for _, name := range d.Names() {
		if link := LinkFolder + name; dev == link || strings.HasPrefix(dev, link+"-part") {
			return true
		}
	}
	return slices.ContainsFunc(d.Partitions, func(p Partition) bool {
		return p.Device == dev || p.PartUUID != "" && strings.EqualFold(dev, "/dev/disk/by-partuuid/"+p.PartUUID)
	})
}

// ESPs returns the EFI system partitions.
func (s System) ESPs() (out []Partition) {
	for _, d := range s.Disks {
		for _, p := range d.Partitions {
			if strings.EqualFold(p.Type, TypeESP) {
				out = append(out, p)
			}
		}
	}
	return out
}

// CacheStrings returns the strings of a cache of pools as JSON. In its packed list, the name of a
// value comes before it.
func CacheStrings(data string) json.RawMessage {
	var pairs []map[string]string
	name := ""
	for _, s := range strings.FieldsFunc(data, func(r rune) bool { return r < ' ' || r > '~' }) {
		if s = strings.TrimSpace(s); len(s) < 3 {
			continue
		}
		label := ""
		if name == "hostname" {
			label = name
		}
		pairs, name = append(pairs, map[string]string{label: s}), s
	}
	out, err := json.Marshal(pairs)
	if err != nil {
		return nil
	}
	return out
}
