package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/term"

	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
)

// hasMetadataPort tells whether a guest reaches its metadata by a second serial port, as on
// SmartOS.
func hasMetadataPort(g manifest.Guest) bool {
	return g.Brand == manifest.KVM || g.Brand == manifest.Bhyve
}

// startMetadata answers the requests at the second serial port until QEMU has ended.
func (m *machine) startMetadata(ctx context.Context) error {
	c, err := m.v.g.store.Host.Dial(ctx, "unix", m.v.g.Path(qemu.SocketMetadata))
	if err == nil {
		m.v.answerMetadata(ctx, c, m.Process.Ended())
	}
	return err
}

// answerMetadata answers the requests at an end of a serial line until the machine has ended.
func (v *supervisor) answerMetadata(ctx context.Context, c io.ReadWriteCloser, ended <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() { // a change that waits for the lock of the guest ends with it
		<-ended
		cancel()
		c.Close()
	}()
	go func() {
		store := &portStore{ctx: ctx, store: v.g.store, known: v.g.Guest}
		if err := serveMetadata(c, store); err != nil && ctx.Err() == nil {
			fmt.Fprintln(v.log, "metadata:", err)
		}
	}()
}

// nullModem are the ends of a serial line between a guest and this machine (nmdm(4)). Tests replace it.
var nullModem = func(uuid string) (guest, host string) { return "/dev/nmdm" + uuid + "A", "/dev/nmdm" + uuid + "B" }

// openModem opens an end of such a line.
func openModem(name string) (*os.File, error) {
	// Without the flag, it would wait for the other end.
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err == nil {
		cerr := raw.Control(func(fd uintptr) { _, err = term.MakeRaw(int(fd)) })
		err = errors.Join(err, cerr)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// portStore is the metadata of a guest that runs.
type portStore struct {
	ctx   context.Context
	store *Store
	known manifest.Guest
}

// guest reads the manifest, because a command may have changed it.
func (p *portStore) guest() manifest.Guest {
	if g, err := p.store.open(p.known.UUID); err == nil {
		p.known = g.Guest
	}
	return p.known
}

// maxMetadata bounds the metadata that a guest can write, keys and values together, in bytes.
const maxMetadata = 1 << 20

// set changes the manifest, as `bakeoff vm update` does.
func (p *portStore) set(key string, value *string) error {
	g, err := p.store.open(p.known.UUID)
	if err != nil {
		return err
	}
	which, all := "customer_metadata", g.CustomerMetadata
	if isInternal(g.Guest, key) {
		which, all = "internal_metadata", g.InternalMetadata
	}
	change := map[string]any{}
	if value == nil {
		if _, ok := all[key]; !ok {
			return nil
		}
		change["remove_"+which] = []string{key}
	} else {
		size := len(key) + len(*value)
		for _, m := range []map[string]any{g.CustomerMetadata, g.InternalMetadata} {
			for k, v := range m {
				size += len(k) + len(text(v))
			}
		}
		if size > maxMetadata {
			return fmt.Errorf("the guest would have %d bytes of metadata; the limit is %d", size, maxMetadata)
		}
		change["set_"+which] = map[string]string{key: *value}
	}
	src, err := json.Marshal(change)
	if err != nil {
		return err
	}
	if _, err := g.Update(p.ctx, Origin{}, "guest", src); err != nil {
		return errors.New("the metadata was not changed: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// serverUUID identifies this machine; "" if it has no identifier.
func serverUUID() string {
	b, err := os.ReadFile("/etc/machine-id")
	id := strings.TrimSpace(string(b))
	if err != nil || len(id) != 32 {
		return ""
	}
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}
