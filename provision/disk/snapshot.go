package disk

import (
	"cmp"
	"context"
	"encoding/json"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Snapshot keeps the present content of a qcow2 file, in the file, under a tag. Nothing else
// has the file open.
func Snapshot(ctx context.Context, host conn.Conn, file, tag string) error {
	return snapshot(ctx, host, "-c", file, tag)
}

// Revert gives a qcow2 file the content that it had at a snapshot, which it keeps. It can be
// repeated after it was killed.
func Revert(ctx context.Context, host conn.Conn, file, tag string) error {
	return snapshot(ctx, host, "-a", file, tag)
}

// DropSnapshot removes a snapshot from a qcow2 file.
func DropSnapshot(ctx context.Context, host conn.Conn, file, tag string) error {
	return snapshot(ctx, host, "-d", file, tag)
}

func snapshot(ctx context.Context, host conn.Conn, what, file, tag string) error {
	return run(ctx, host, "qemu-utils", nil, "qemu-img", "snapshot", "-q", what, tag, file)
}

// Snapshots are the tags of the snapshots in a qcow2 file.
func Snapshots(ctx context.Context, host conn.Conn, file string) ([]string, error) {
	out, err := conn.AdminOutput(ctx, host, nil, "qemu-img", "info", "-f", "qcow2", "--output=json", file)
	if err != nil {
		return nil, err
	}
	var info struct {
		Snapshots []struct{ Name string }
	}
	if err := json.Unmarshal(out, &info); err != nil {
		return nil, fault.Wrap(fault.Lab, "qemu-img info", err)
	}
	var tags []string
	for _, s := range info.Snapshots {
		tags = append(tags, s.Name)
	}
	return tags, nil
}

// Flatten writes a qcow2 file and all that it stands on to a new qcow2 file without
// snapshots. Both paths are absolute.
func Flatten(ctx context.Context, host conn.Conn, file, to string) error {
	return convert(ctx, host, "-f", "qcow2", "-O", "qcow2", "file:"+file, to)
}

// CheckAlone refuses a qcow2 file with a backing file, and everything that is not a
// qcow2 file: a stranger's file could name any file of the host.
func CheckAlone(ctx context.Context, host conn.Conn, file string) error {
	out, err := conn.AdminOutput(ctx, host, nil, "qemu-img", "info", "-f", "qcow2", "--output=json", file)
	if err != nil {
		return err
	}
	var info struct {
		Backing  string `json:"backing-filename"`
		Specific struct {
			Data struct {
				File string `json:"data-file"`
			}
		} `json:"format-specific"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		return fault.Wrap(fault.Lab, "qemu-img info", err)
	}
	if other := cmp.Or(info.Backing, info.Specific.Data.File); other != "" {
		return fault.New(fault.Invalid, "the disk has a backing file: %q", other)
	}
	return nil
}
