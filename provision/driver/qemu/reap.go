package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
)

// Reap removes what a machine left on host: its control group with the QEMU
// in it, and its tap device.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	var found []string
	var errs []error
	layout, err := cgroup.Detect(ctx, host)
	if fault.Is(err, fault.Unsupported) {
		return nil, nil // without control groups nothing was made
	}
	if err != nil {
		return nil, err
	}
	dirs, err := layout.Find(ctx, host, left.Label)
	if err != nil {
		return nil, err
	}
	if len(dirs) > 0 {
		group, err := layout.Adopt(ctx, host, left.Label, cgroup.Limits{})
		if err != nil {
			return nil, err
		}
		pids, err := group.PIDs(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range pids {
			found = append(found, fmt.Sprintf("process %d qemu", p))
		}
		for _, d := range dirs {
			found = append(found, "control group "+d)
		}
		if !dryRun {
			errs = append(errs, group.Remove(ctx))
		}
	}
	tap, err := reapTap(ctx, host, left, dryRun)
	return append(found, tap...), errors.Join(append(errs, err)...)
}

func reapTap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	namespace, err := readNamespace(ctx, host, left.Dir)
	if namespace == "" || err != nil {
		return nil, err
	}
	there, err := netns.Exists(ctx, host, namespace)
	if !there || err != nil {
		return nil, err // its devices went with it
	}
	tap := netns.Tap(left.Label)
	if there, err = netns.HasLink(ctx, host, namespace, tap); !there || err != nil {
		return nil, err
	}
	if !dryRun {
		err = netns.DetachTap(ctx, host, namespace, left.Label)
	}
	return []string{fmt.Sprintf("tap %s in namespace %s", tap, namespace)}, err
}

// readNamespace reads what remember wrote. Without a directory nothing was
// made.
func readNamespace(ctx context.Context, host conn.Conn, dir string) (string, error) {
	text, err := conn.FilesOf(host).ReadFile(ctx, path.Join(dir, fileState))
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var l leftover
	if err := json.Unmarshal(text, &l); err != nil {
		return "", fault.Wrap(fault.Lab, path.Join(dir, fileState), err)
	}
	if strings.ContainsAny(l.Namespace, "/ \n") || strings.HasPrefix(l.Namespace, "-") {
		return "", fault.New(fault.Lab, "%s: %q is not the name of a namespace", path.Join(dir, fileState), l.Namespace)
	}
	return l.Namespace, nil
}
