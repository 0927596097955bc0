package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/image/registry/registrytest"
	"bakeoff/provision/image/source/imgapi"
	"bakeoff/provision/image/source/netbsd"
	"bakeoff/provision/image/source/sourcetest"
)

const (
	lowerID  = "6a1d1c2e-0000-11e5-8557-6b43e0a88b38"
	upperID  = "6a1d1c2e-0001-11e5-8557-6b43e0a88b38"
	streamID = "6a1d1c2e-0002-11e5-8557-6b43e0a88b38"
	tarredID = "6a1d1c2e-0003-11e5-8557-6b43e0a88b38"
	evilID   = "6a1d1c2e-0004-11e5-8557-6b43e0a88b38"
	diskID   = "6a1d1c2e-0005-11e5-8557-6b43e0a88b38"
	changeID = "6a1d1c2e-0006-11e5-8557-6b43e0a88b38"
)

// manifestOf is a manifest of an IMGAPI server.
func manifestOf(id, name, kind, origin, file string) string {
	sum := sha1.Sum([]byte(file))
	return fmt.Sprintf(
		`{"v":2,"uuid":%q,"name":%q,"version":"1","state":"active","published_at":"2015-08-03T16:49:24Z",
"type":%q,"os":"linux","origin":%q,"files":[{"sha1":%q,"size":%d,"compression":"none"}]}`,
		id,
		name,
		kind,
		origin,
		hex.EncodeToString(sum[:]),
		len(file),
	)
}

// imgapiServer has images of all kinds.
func imgapiServer(t *testing.T) *sourcetest.Server {
	t.Helper()
	zfs := strings.Repeat("\x00", 8) + "\xac\xcb\xba\xf5\x02\x00\x00\x00" + strings.Repeat("\x00", 296)
	c := sourcetest.Case{Source: imgapi.Source{}, Documents: map[string]string{}, Files: map[string]string{}}
	for _, i := range []struct{ id, name, kind, origin, file string }{
		{lowerID, "lower", "docker", "", string(registrytest.Tar(t, map[string]string{"a": "1", "old": "x"}))},
		{upperID, "upper", "docker", lowerID, string(registrytest.Tar(t, map[string]string{"b": "2", ".wh.old": ""}))},
		{streamID, "zone", "zone-dataset", "", zfs},
		{tarredID, "tarred", "zone-dataset", "", string(registrytest.Tar(t, map[string]string{"c": "3"}))},
		{diskID, "disk", "zvol", "", gzipped(t, "volume.zfs")},
		{changeID, "change", "zvol", diskID, gzipped(t, "change.zfs")},
		{evilID, "evil", "docker", lowerID, string(registrytest.Tar(t, map[string]string{"../../f": "evil"}))},
	} {
		c.Documents["/images/"+i.id] = manifestOf(i.id, i.name, i.kind, i.origin, i.file)
		c.Files["/images/"+i.id+"/file"] = i.file
	}
	return sourcetest.Start(t, c)
}

// gzipped is a ZFS stream of a volume, as an IMGAPI server has it.
func gzipped(t *testing.T, name string) string {
	b, err := os.ReadFile(filepath.Join("..", "zfs", "stream", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The disk of an image is written without ZFS, upon that of its origin.
func TestImportVolume(t *testing.T) {
	server := imgapiServer(t)
	s := &Store{Dir: t.TempDir()}
	to := filepath.Join(t.TempDir(), "disk.raw")
	v, err := s.ImportVolume(t.Context(), imgapi.Source{}, server.Address(), changeID, to)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(to)
	if err != nil || len(b) != 16<<10 || v.Size != 16<<10 || v.From != 7 || b[0] != '0' || b[1024] != 0 ||
		b[16<<10-1] != 'n' {
		t.Errorf("%+v, %d bytes, %v", v, len(b), err)
	}
	if left, err := s.Sweep(t.Context(), true); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	_, err = s.ImportVolume(t.Context(), imgapi.Source{}, server.Address(), diskID, to)
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("onto a file that exists: %v", err)
	}
	other := filepath.Join(t.TempDir(), "other.raw")
	for id, want := range map[string]string{tarredID: "not the ZFS stream of a volume",
		streamID: "record BEGIN at byte 0"} {
		_, err := s.ImportVolume(t.Context(), imgapi.Source{}, server.Address(), id, other)
		if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", id, err)
		}
		if exists(other) {
			t.Errorf("%s: the disk exists", id)
		}
	}
	_, err = s.ImportFrom(t.Context(), imgapi.Source{}, server.Address(), diskID)
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(fault.Fix(err), "--disk FILE") {
		t.Errorf("without a disk: %v, fix %q", err, fault.Fix(err))
	}
}

func TestImportOfAChain(t *testing.T) {
	server := imgapiServer(t)
	s := &Store{Dir: t.TempDir()}
	h, err := s.ImportFrom(t.Context(), imgapi.Source{}, server.Address(), upperID)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Stored()
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	chain, err := Ancestry(all, h)
	if err != nil || len(chain) != 2 || chain[1].UUID != lowerID || len(h.Layers) != 2 ||
		h.Layers[0] != chain[1].Layers[0] || h.UUID != upperID || h.OriginName != lowerID ||
		h.Source != server.Address() || h.Ref != "store:upper:1" {
		t.Errorf("%+v, %v", chain, err)
	}
	again, err := s.ImportFrom(t.Context(), imgapi.Source{}, server.Address(), upperID)
	if err != nil || again.Digest != h.Digest {
		t.Errorf("%+v, %v", again, err)
	}
	if left, err := s.Sweep(t.Context(), true); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	needsRoot(t)
	if h.Arch != "amd64" {
		t.Skip("the images are for amd64")
	}
	img := get(t, s, "store:upper:1")
	if contentOf(t, img, "a") != "1" || contentOf(t, img, "b") != "2" || exists(img.Dir+"/old") {
		t.Errorf("%+v", img)
	}
}

func TestImportsThatAreRefused(t *testing.T) {
	server := imgapiServer(t)
	s := &Store{Dir: t.TempDir()}
	if _, err := s.ImportFrom(t.Context(), imgapi.Source{}, server.Address(), streamID); !fault.Is(err,
		fault.Unsupported) || !strings.Contains(err.Error(), "ZFS stream") {
		t.Errorf("a ZFS stream: %v", err)
	}
	if h, err := s.ImportFrom(t.Context(), imgapi.Source{}, server.Address(), tarredID); err != nil ||
		h.Ref != "store:tarred:1" {
		t.Errorf("a tar file of a type that has ZFS streams: %+v, %v", h, err)
	}
	if _, err := s.ImportFrom(t.Context(), imgapi.Source{}, server.Address(), lowerID); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, s.Dir)
	if _, err := s.ImportFrom(t.Context(), imgapi.Source{}, server.Address(), evilID); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "may leave the image") {
		t.Errorf("%v", err)
	}
	if after := filesOf(t, s.Dir); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("files\n%s\ninstead of\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
}

// setOf is a set of NetBSD with devices and names that begin with ./, compressed.
func setOf(t *testing.T, names ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, n := range names {
		h := &tar.Header{Name: n, Typeflag: tar.TypeReg, Mode: 0o444, Size: int64(len(n))}
		if strings.HasSuffix(n, "/") {
			h = &tar.Header{Name: n, Typeflag: tar.TypeDir, Mode: 0o755}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestImportOfSets(t *testing.T) {
	base, etc := setOf(t, "./", "./bin/", "./bin/sh"), setOf(t, "./etc/", "./etc/rc")
	const path = "/NetBSD-10.1/amd64/binary/sets"
	server := sourcetest.Start(t, sourcetest.Case{Source: netbsd.Source{}, Path: path,
		Documents: map[string]string{path + "/MD5": "MD5 (base.tgz) = " + md5Of(base) + "\nMD5 (etc.tgz) = " +
			md5Of(etc) + "\n"},
		Files: map[string]string{path + "/base.tgz": base, path + "/etc.tgz": etc}})
	s := &Store{Dir: t.TempDir()}
	h, err := s.ImportFrom(t.Context(), netbsd.Source{}, server.Address(), "netbsd-base:10.1")
	if err != nil || h.OS != "netbsd" || h.Arch != "amd64" || len(h.Layers) != 2 {
		t.Fatalf("%+v, %v", h, err)
	}
	if h.Layers[0] != registrytest.Digest([]byte(base)) {
		t.Errorf("the set was compressed again: %v", h.Layers)
	}
	out, err := os.Create(t.TempDir() + "/x.tar")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := s.Export(t.Context(), h, out); err != nil {
		t.Error(err)
	}
	if os.Getuid() == 0 {
		if _, err := s.Get(t.Context(), Request{Ref: h.Ref}); !fault.Is(err, fault.Unsupported) {
			t.Errorf("an image for another system: %v", err)
		}
	}
}

func md5Of(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
