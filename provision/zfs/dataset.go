package zfs

import (
	"context"
	"path"
	"strings"

	"bakeoff/reach/conn"
)

// Clone creates a clone of a snapshot next to its dataset, and returns its name.
// properties are name=value.
func Clone(ctx context.Context, host conn.Conn, snapshot, name string, properties ...string) (string, error) {
	dataset, _, _ := strings.Cut(snapshot, "@")
	clone := path.Join(path.Dir(dataset), name)
	argv := []string{"zfs", "clone"}
	for _, p := range properties {
		argv = append(argv, "-o", p)
	}
	return clone, run(ctx, host, append(argv, snapshot, clone)...)
}

// IsSnapshot reports whether a snapshot exists.
func IsSnapshot(ctx context.Context, host conn.Conn, name string) bool {
	return run(ctx, host, "zfs", "list", "-H", "-t", "snapshot", "-o", "name", name) == nil
}

// Sweep asks a host, and removes what an environment left; see guest.Sweep.
type Sweep interface {
	Ask(ctx context.Context, argv ...string) (out string, yes bool)
	Remove(ctx context.Context, what string, argv ...string)
}

// The kinds of datasets that Reap destroys, and the mount point of volumes.
const (
	FileSystem   = "filesystem"
	Volume       = "volume"
	NoMountpoint = "-"
)

// Reap destroys the clones that an environment left: datasets of a kind with the last
// name name that are mounted at mountpoint.
func Reap(ctx context.Context, s Sweep, kind, name, mountpoint string) {
	if list, ok := s.Ask(ctx, "zfs", "list", "-H", "-t", kind, "-o", "name,mountpoint"); ok {
		what := map[string]string{FileSystem: "dataset ", Volume: "volume "}[kind]
		for _, dataset := range datasetsAt(list, name, mountpoint) {
			s.Remove(ctx, what+dataset, "zfs", "destroy", dataset)
		}
	}
}

// datasetsAt reads what `zfs list -H -o name,mountpoint` prints.
func datasetsAt(list, name, mountpoint string) (found []string) {
	for line := range strings.Lines(list) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) == 2 && f[1] == mountpoint && path.Base(f[0]) == name {
			found = append(found, f[0])
		}
	}
	return found
}
