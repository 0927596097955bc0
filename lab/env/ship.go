package env

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"runtime"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
)

// ship copies an image into the host's cache, once, and returns its paths
// there. The image's digest names its folder.
func (m *Manager) ship(ctx context.Context, img driver.Image) (driver.Image, error) {
	if !name.ValidDigest(img.Digest) {
		return img, fault.New(fault.Lab, "image %s has an invalid digest: %q", img.Ref, img.Digest)
	}
	shelf := filepath.Join(m.cfg.CacheDir, "image", "shipped-"+img.Digest[len("sha256:"):])
	for _, part := range []struct {
		name string
		path *string
	}{{"root", &img.Root}, {"disk", &img.Disk}, {"kernel", &img.Kernel}, {"modules", &img.Modules}} {
		if *part.path == "" {
			continue
		}
		there := filepath.Join(shelf, part.name)
		if err := m.shipOne(ctx, *part.path, there); err != nil {
			return img, fault.Op(fmt.Sprintf("send the image %s (%s) to %s", img.Ref, part.name, m.cfg.Name), err)
		}
		*part.path = path.Join(there, filepath.Base(*part.path))
	}
	return img, nil
}

// alike refuses to build images for a host with another architecture than this
// machine.
func (m *Manager) alike() error {
	there, ok := m.at.(interface{ Machine() channel.Machine })
	if m.cfg.Ship == nil || !ok {
		return nil
	}
	if arch := there.Machine().GOARCH; arch != runtime.GOARCH {
		return fault.WithFix(fault.New(fault.Unsupported, "this machine builds images for the architecture %s, "+
			"but the host %s has the architecture %s", runtime.GOARCH,
			m.cfg.Name, arch),
			"run bakeoff on a machine with that architecture")
	}
	return nil
}

// take unpacks standard input into the folder $1 atomically.
const take = `set -e; mkdir -p -- "${1%/*}"; t=$1.new.$$; rm -rf -- "$1".new.*; mkdir -- "$t"
trap 'rm -rf -- "$t"' EXIT; trap 'exit 1' HUP INT TERM PIPE
tar -xpf - --numeric-owner -C "$t"; rm -rf -- "$1"; mv -- "$t" "$1"`

// shipOne sends a file or a folder, with owners, modes, links and holes, into
// the folder there.
func (m *Manager) shipOne(ctx context.Context, here, there string) error {
	if exit, err := m.at.Exec(ctx, conn.Command("test", "-e", path.Join(there, filepath.Base(here)))); err != nil ||
		exit.OK() {
		return err
	}
	m.say("sending %s to %s", here, m.cfg.Name)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		said := conn.Tail{Limit: 1024}
		exit, err := m.cfg.Ship.Here.Exec(ctx, conn.Cmd{Stdout: w, Stderr: &said,
			Argv: []string{"tar", "-C", filepath.Dir(here), "-S", "--numeric-owner", "--xattrs", "-cf", "-", "--",
				filepath.Base(here)}})
		if err == nil && !exit.OK() {
			err = fault.New(fault.Lab, "tar here: %s: %s", exit, said.Bytes())
		}
		w.CloseWithError(err) // a stream that breaks off must not look whole
		packed <- err
	}()
	said := conn.Tail{Limit: 1024}
	exit, err := m.at.Exec(ctx, conn.Cmd{Argv: []string{"sh", "-c", take, "sh", there}, Stdin: r, Stderr: &said})
	r.Close()
	if err == nil && !exit.OK() {
		err = fault.New(fault.Lab, "tar there: %s: %s", exit, said.Bytes())
	}
	if err != nil {
		return err
	}
	return <-packed
}
