package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
)

// hasMetadataPort tells whether a guest reaches its metadata by a second serial port, as on
// SmartOS.
func hasMetadataPort(g manifest.Guest) bool {
	return g.Brand == manifest.KVM || g.Brand == manifest.Bhyve && g.Driver != manifest.DriverBhyve
}

// startMetadata answers the requests at the second serial port until QEMU has ended.
func (m *machine) startMetadata(ctx context.Context) error {
	dir := m.v.g.Path("")
	c, err := m.v.g.store.Host.Dial(ctx, "unix", filepath.Join(dir, qemu.SocketMetadata))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() { // a change that waits for the lock of the guest ends with it
		<-m.Process.Ended()
		cancel()
		c.Close()
	}()
	go func() {
		store := &portStore{ctx: ctx, store: m.v.g.store, known: m.v.g.Guest}
		if err := serveMetadata(c, store); err != nil && ctx.Err() == nil {
			fmt.Fprintln(m.v.log, "metadata:", err)
		}
	}()
	return nil
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
			return fmt.Errorf("the guest would have %d bytes of metadata; at most %d are kept", size, maxMetadata)
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
