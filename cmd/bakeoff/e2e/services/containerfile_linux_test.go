package services

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// base makes a folder with a root of busybox, and returns FROM's name for it.
func base(t *testing.T, dir string) string {
	t.Helper()
	box, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox: apt-get install busybox-static")
	}
	root := filepath.Join(dir, "base")
	script := `set -e; mkdir -p "$1/bin" "$1/etc" "$1/tmp"; cp "$2" "$1/bin/busybox"
for n in $("$2" --list); do [ "$n" = busybox ] || ln -s busybox "$1/bin/$n"; done
echo root:x:0:0::/root:/bin/sh >"$1/etc/passwd"; echo root:x:0: >"$1/etc/group"`
	if out, err := exec.Command("sh", "-c", script, "sh", root, box).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return "rootfs:" + root
}

// write writes the files of a service.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			err = os.WriteFile(at, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A Containerfile with every instruction becomes an image that says what it says, and
// whose program starts as it says. Only steps that ask for it reach the network.
func TestContainerfile(t *testing.T) {
	h, _ := start(t, "crun")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "from the network")
	}))
	defer server.Close()
	dir := filepath.Join(h.Dir, "app")
	write(t, dir, map[string]string{"Containerfile": `ARG BASE
FROM $BASE
ARG GREETING=hello
ARG URL
ENV APP=/srv/app KIND="of a test"
LABEL org.example.kind=test
WORKDIR $APP
COPY --chmod=0755 serve .
COPY --chown=1234:1234 data/ data/
RUN --network=default wget -q -O page "$URL"
RUN --network=host wget -q -O - "$URL" >>page
RUN ! wget -q -T 5 -O none "$URL" && test ! -s none && rm -f none
RUN --network=none ! wget -q -T 5 -O none "$URL" && rm -f none
RUN echo "$GREETING $APP $KIND $(pwd) $(id -u)" >built
USER 1234:1234
RUN id -u >data/user
EXPOSE 8080 53/udp
ENTRYPOINT ["/srv/app/serve"]
CMD ["first", "second word"]
`, "data/file": "text\n", "serve": `#!/bin/sh
echo "$#: $1, $2; $APP $KIND; $(pwd); $(id -u):$(id -g); $(cat built); $(cat data/user); $(cat data/file); $(cat page)"
`})
	app := built(t, h, dir, "--arg", "BASE="+base(t, h.Dir), "--arg", "GREETING=good day", "--arg", "URL="+server.URL,
		"--output", "out")["app"]
	archive := filepath.Join(h.Dir, "out/app.oci.tar")
	config := configOf(t, archive)
	for name, want := range map[string]any{"User": "1234:1234", "WorkingDir": "/srv/app",
		"Entrypoint": []any{"/srv/app/serve"}, "Cmd": []any{"first", "second word"},
		"Labels":       map[string]any{"org.example.kind": "test"},
		"ExposedPorts": map[string]any{"8080/tcp": map[string]any{}, "53/udp": map[string]any{}}} {
		if !reflect.DeepEqual(config[name], want) {
			t.Errorf("%s of the image is %v, want %v", name, config[name], want)
		}
	}
	img := unpacked(t, archive)
	if img.Digest != app.Digest {
		t.Errorf("the archive has %s, and built was %s", img.Digest, app.Digest)
	}
	out, err := crun(t, img.Dir, map[string]any{"cwd": img.Config.WorkingDir, "env": img.Config.Env,
		"args": append(img.Config.Entrypoint, img.Config.Cmd...), "user": map[string]any{"uid": 1234, "gid": 1234}})
	want := "2: first, second word; /srv/app of a test; /srv/app; 1234:1234; good day /srv/app of a test /srv/app 0; " +
		"1234; text; from the networkfrom the network\n"
	if err != nil || string(out) != want {
		t.Errorf("the program printed %q, %v; want %q", out, err, want)
	}
	for _, never := range []string{"etc/resolv.conf", "srv/app/none"} {
		if _, err := os.Lstat(filepath.Join(img.Dir, never)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the image has /%s, %v", never, err)
		}
	}
	h.LeavesNothing(t)
}

// configOf is the key config of the image's configuration in an archive.
func configOf(t *testing.T, archive string) map[string]any {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := tar.NewReader(f); ; {
		head, err := in.Next()
		if err != nil {
			t.Fatalf("%s has no configuration: %v", archive, err)
		}
		if !strings.HasPrefix(head.Name, "blobs/") || head.Size > 1<<20 {
			continue
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			RootFS any `json:"rootfs"`
			Config map[string]any
		}
		if json.Unmarshal(text, &doc) == nil && doc.RootFS != nil {
			return doc.Config
		}
	}
}

// waiting returns a service whose build waits, for a time that no other process waits for.
func waiting(t *testing.T, dir string, n int) (service, seconds string) {
	t.Helper()
	service, seconds = filepath.Join(dir, "waiting"), fmt.Sprint(10_000_000*n+os.Getpid())
	write(t, service, map[string]string{"Containerfile": "ARG BASE\nFROM $BASE\nARG WAIT\nRUN /bin/sleep $WAIT\n"})
	return service, seconds
}
