// Package registrytest starts Debian's docker-registry for tests and pushes images to
// it.
package registrytest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"bakeoff/base/hexsum"
)

// Server is a registry on this machine.
type Server struct {
	Host string // 127.0.0.1:PORT
	Data string // the folder with its blobs

	// User and Password are those that it asks for; "" for none.
	User, Password string

	t      testing.TB
	config string
	cmd    *exec.Cmd
	log    *os.File
}

// User, Password and their line in a file of htpasswd.
const (
	User     = "user"
	Password = "secret"
	htpasswd = "user:$2b$04$8WSK5.gBwInnyFfkfmJVe.drFUOYHAlMX/jIm7QptDUtAZMvPCx.2\n"
)

// Start starts a registry, which ends with the test. If private, it asks for User and
// Password. The test is skipped with -short or if the program is missing.
func Start(t testing.TB, private bool) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a registry: not with -short")
	}
	if _, err := exec.LookPath("docker-registry"); err != nil {
		t.Skip("needs docker-registry: apt-get install docker-registry")
	}
	dir := t.TempDir()
	s := &Server{Data: filepath.Join(dir, "data"), t: t, config: filepath.Join(dir, "config.yml")}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Host = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("version: 0.1\nlog: {level: warn}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s}\n",
		s.Data, s.Host)
	if private {
		s.User, s.Password = User, Password
		file := filepath.Join(dir, "htpasswd")
		write(t, file, htpasswd)
		text += fmt.Sprintf("auth: {htpasswd: {realm: test, path: %s}}\n", file)
	}
	write(t, s.config, text)
	if s.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if err := s.log.Close(); err != nil {
			t.Error(err)
		}
	})
	s.Run()
	return s
}

// Run starts the registry again after Kill.
func (s *Server) Run() {
	s.t.Helper()
	s.cmd = exec.Command("docker-registry", "serve", s.config)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", s.Host)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(s.log.Name())
			s.t.Fatalf("the registry does not answer: %v\n%s", err, log)
		}
	}
}

// Kill ends the registry at once, in the middle of what it does.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it was killed
		s.cmd = nil
	}
}

// Blob is the file in which the registry keeps a blob.
func (s *Server) Blob(digest string) string {
	hexa := strings.TrimPrefix(digest, "sha256:")
	return filepath.Join(s.Data, "docker/registry/v2/blobs/sha256", hexa[:2], hexa, "data")
}

// Image is an image for this machine's architecture.
type Image struct {
	Layers           [][]byte
	Config, Manifest []byte
}

// Digest is that of the manifest.
func (i Image) Digest() string { return Digest(i.Manifest) }

// Digest is the sha256:… of b.
func Digest(b []byte) string {
	return "sha256:" + hexsum.Of(b)
}

// The types of what an image consists of.
const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// Build makes an image of tar files, the lowest first. config is the value of config in
// its configuration, such as map[string]any{"Env": …}.
func Build(t testing.TB, config map[string]any, layers ...[]byte) Image {
	t.Helper()
	var i Image
	var ids []string
	var descriptors []map[string]any
	for _, l := range layers {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(l); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, Digest(l))
		i.Layers = append(i.Layers, b.Bytes())
		descriptors = append(descriptors, describe(typeLayer, b.Bytes()))
	}
	i.Config = encode(t, map[string]any{"os": "linux", "architecture": runtime.GOARCH, "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": ids}})
	i.Manifest = encode(t, map[string]any{"schemaVersion": 2, "mediaType": typeManifest,
		"config": describe(typeConfig, i.Config), "layers": descriptors})
	return i
}

func describe(kind string, b []byte) map[string]any {
	return map[string]any{"mediaType": kind, "digest": Digest(b), "size": len(b)}
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Tar is a tar file with these files, by their paths, all of the user root.
func Tar(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content)), ModTime: time.Unix(1, 0)}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Push puts an image into the registry under NAME:TAG.
func (s *Server) Push(repository, tag string, i Image) {
	s.t.Helper()
	for _, b := range append(i.Layers, i.Config) {
		s.PushBlob(repository, b)
	}
	s.PushManifest(repository, tag, typeManifest, i.Manifest)
}

// PushManifest puts a manifest or an index into the registry.
func (s *Server) PushManifest(repository, tag, kind string, b []byte) {
	s.t.Helper()
	s.send(http.MethodPut, "http://"+s.Host+"/v2/"+repository+"/manifests/"+tag, kind, b)
}

// PushBlob puts a blob into the registry.
func (s *Server) PushBlob(repository string, b []byte) {
	s.t.Helper()
	at := s.send(http.MethodPost, "http://"+s.Host+"/v2/"+repository+"/blobs/uploads/", "", nil)
	join := "?"
	if strings.Contains(at, "?") {
		join = "&"
	}
	s.send(http.MethodPut, at+join+"digest="+Digest(b), "application/octet-stream", b)
}

// send makes a request and returns the place that the answer names.
func (s *Server) send(method, url, kind string, b []byte) string {
	s.t.Helper()
	req, err := http.NewRequest(method, url, bytes.NewReader(b))
	if err != nil {
		s.t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if s.User != "" {
		req.SetBasicAuth(s.User, s.Password)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if resp.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %s: %s", method, url, resp.Status, said)
	}
	return resp.Header.Get("Location")
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
