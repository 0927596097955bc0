package partition

import (
	"fmt"
	"io"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/base/gpt"
)

// Table is what a disk contains, for people.
type Table struct {
	// Kind is GPT, MBR or empty.
	Kind string `json:"kind"`
	// FileSystem is that of the whole disk, if it has one.
	FileSystem string  `json:"file_system,omitempty"`
	Entries    []Entry `json:"partitions"`
	// Boot is the number of the partition that the attributes of the GPT choose, of
	// whatever system it is.
	Boot *int `json:"boot,omitempty"`
	// Root is the number of the partition with Linux that guests of bakeoff use as
	// root; 0 is the whole disk.
	Root *int `json:"root"`
	// RootError says why there is none.
	RootError string `json:"root_error,omitempty"`
}

// Entry is a partition; Offset and Size are in bytes.
type Entry struct {
	Number     int      `json:"number"`
	Type       string   `json:"type"` // a GUID, or a number in an MBR
	TypeName   string   `json:"type_name,omitempty"`
	Name       string   `json:"name,omitempty"`
	Offset     int64    `json:"offset_bytes"`
	Size       int64    `json:"size_bytes"`
	Attributes []string `json:"attributes"`
	FileSystem string   `json:"file_system,omitempty"`
}

// Describe lists the partitions of a disk of size bytes. It returns an error of kind
// fault.Invalid for a damaged table, and of kind fault.NotFound where there is neither a
// table nor a file system that bakeoff knows.
func Describe(disk io.ReaderAt, size int64, arch string) (Table, error) {
	t := Table{Entries: []Entry{}}
	if t.FileSystem = fileSystemOf(disk, Range{0, size}); t.FileSystem != ext {
		all, err := gpt.Read(disk, size)
		switch {
		case err == nil:
			t.Kind = "GPT"
			for _, p := range all {
				t.Entries = append(t.Entries, Entry{Number: p.Number, Type: p.Type,
					TypeName: gpt.TypeName(p.Type), Name: p.Name, Offset: p.Offset,
					Size: p.Size, Attributes: gpt.Attributes(p.Attributes)})
			}
			if p, err := gpt.Boot(all, ""); err == nil {
				t.Boot = &p.Number
			}
		case !fault.Is(err, fault.NotFound):
			return t, err
		default:
			t.Entries = append(t.Entries, mbrEntries(disk, size)...)
			if len(t.Entries) > 0 {
				t.Kind = "MBR"
			}
		}
	}
	if t.Kind == "" && t.FileSystem == "" {
		if err := refuseFormat(disk); err != nil {
			return t, err
		}
		return t, fault.New(fault.NotFound, "the disk has neither a partition table nor a file system that bakeoff knows")
	}
	for i, e := range t.Entries {
		t.Entries[i].FileSystem = fileSystemOf(disk, Range{e.Offset, e.Size})
	}
	r, err := Root(disk, size, arch)
	if err != nil {
		t.RootError = err.Error()
		if slices.ContainsFunc(t.Entries, func(e Entry) bool { return e.FileSystem == ffs }) {
			t.RootError = unmountable(ffs).Error()
		}
		return t, nil
	}
	n := 0
	for _, e := range t.Entries {
		if e.Offset == r.Offset {
			n = e.Number
		}
	}
	t.Root = &n
	return t, nil
}

// mbrEntries returns the partitions of an MBR. Root reports a damaged list of logical ones.
func mbrEntries(disk io.ReaderAt, size int64) (all []Entry) {
	read, _ := readMBR(disk, size)
	for _, e := range read {
		if within(e.Partition, size) != nil {
			continue
		}
		attributes := []string{}
		if e.active {
			attributes = append(attributes, "active")
		}
		all = append(all, Entry{Number: e.Number, Type: fmt.Sprintf("%#02x", e.kind), TypeName: containersMBR[e.kind],
			Offset: e.Offset, Size: e.Size, Attributes: attributes})
	}
	return all
}
