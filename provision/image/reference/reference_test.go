package reference

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
)

var sum = "sha256:" + strings.Repeat("0123456789abcdef", 4)

func TestReferences(t *testing.T) {
	for text, want := range map[string]Reference{
		"debian:bookworm":      {Kind: Packages, Distribution: "debian", Suite: "bookworm"},
		"ubuntu:noble":         {Kind: Packages, Distribution: "ubuntu", Suite: "noble"},
		"debian:bookworm-slim": {Kind: Packages, Distribution: "debian", Suite: "bookworm-slim"},
		"alpine:3.20":          {Kind: Registry, Host: "docker.io", Repository: "library/alpine", Tag: "3.20"},
		"nginx:1.27-alpine":    {Kind: Registry, Host: "docker.io", Repository: "library/nginx", Tag: "1.27-alpine"},
		"docker.io/library/debian:bookworm": {Kind: Registry, Host: "docker.io", Repository: "library/debian",
			Tag: "bookworm"},
		"docker.io/debian:12":       {Kind: Registry, Host: "docker.io", Repository: "library/debian", Tag: "12"},
		"index.docker.io/debian:12": {Kind: Registry, Host: "docker.io", Repository: "library/debian", Tag: "12"},
		"library/debian:bookworm":   {Kind: Registry, Host: "docker.io", Repository: "library/debian", Tag: "bookworm"},
		"grafana/k6:0.50.0":         {Kind: Registry, Host: "docker.io", Repository: "grafana/k6", Tag: "0.50.0"},
		"ghcr.io/a/b/c:V1_x":        {Kind: Registry, Host: "ghcr.io", Repository: "a/b/c", Tag: "V1_x"},
		"127.0.0.1:5000/musl:1":     {Kind: Registry, Host: "127.0.0.1:5000", Repository: "musl", Tag: "1"},
		"localhost:5000/musl:1":     {Kind: Registry, Host: "localhost:5000", Repository: "musl", Tag: "1"},
		"alpine@" + sum:             {Kind: Registry, Host: "docker.io", Repository: "library/alpine", Digest: sum},
		"debian@" + sum:             {Kind: Registry, Host: "docker.io", Repository: "library/debian", Digest: sum},
		"alpine:3.20@" + sum: {Kind: Registry, Host: "docker.io", Repository: "library/alpine", Tag: "3.20",
			Digest: sum},
		"h.example:5000/a@" + sum:  {Kind: Registry, Host: "h.example:5000", Repository: "a", Digest: sum},
		"oci:/srv/layout":          {Kind: Layout, Path: "/srv/layout"},
		"oci:./layout:v1":          {Kind: Layout, Path: "layout", Tag: "v1"},
		"oci:/srv/a:b/layout":      {Kind: Layout, Path: "/srv/a:b/layout"},
		"oci-archive:x.tar":        {Kind: OCIArchive, Path: "x.tar"},
		"oci-archive:x.tar:v1":     {Kind: OCIArchive, Path: "x.tar", Tag: "v1"},
		"oci-archive:x:1.tar":      {Kind: OCIArchive, Path: "x:1.tar"},
		"docker-archive:/a/x.tar":  {Kind: DockerArchive, Path: "/a/x.tar"},
		"docker-archive:/a/x:y":    {Kind: DockerArchive, Path: "/a/x:y"},
		"rootfs:/srv/root/":        {Kind: Rootfs, Path: "/srv/root"},
		"rootfs:../root.tar.zst":   {Kind: Rootfs, Path: "../root.tar.zst"},
		"store:app:1.0-rc_1":       {Kind: Stored, StoredName: "app", Version: "1.0-rc_1"},
		"rootfs:/srv/ubuntu:noble": {Kind: Rootfs, Path: "/srv/ubuntu:noble"},
	} {
		want.Text = text
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v\nwant %+v", text, got, err, want)
		}
	}
}

func TestFullNames(t *testing.T) {
	for text, want := range map[string]string{
		"alpine:3.20": "docker.io/library/alpine:3.20", "debian:bookworm": "debian:bookworm",
		"ghcr.io/a/b@" + sum: "ghcr.io/a/b@" + sum, "rootfs:/x/": "rootfs:/x/",
	} {
		r, err := Parse(text)
		if err != nil || r.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, r.String(), err, want)
		}
	}
	r, err := Parse("alpine:3.20")
	if err != nil {
		t.Fatal(err)
	}
	want := "docker.io/library/alpine:3.20@" + sum
	again, err := Parse(r.Pinned(sum).Text)
	if err != nil || again.String() != want || again.Digest != sum {
		t.Errorf("pinned: %+v, %v; want %s", again, err, want)
	}
}

// Every mistake is answered with what to write instead.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ text, problem, fix string }{
		{"", `"" is not an image`, "debian:SUITE"},
		{"debian", "not the name of a suite", "docker.io/library/debian:TAG"},
		{"debian:", "not the name of a suite", "debian:bookworm"},
		{"debian:12", `"12" is not the name of a suite`, "docker.io/library/debian:TAG"},
		{"debian:../../etc", "not the name of a suite", "debian:bookworm"},
		{"debian:a b", "byte 9 is a space", "debian:SUITE"},
		{"alpine:3\x00", "byte 9", "debian:SUITE"},
		{"alpine:3.20\u202e", "byte 12", "debian:SUITE"},
		{"debian:$(id)", "not the name of a suite", "debian:bookworm"},
		{"debain:bookworm", "looks misspelled",
			`did you mean "debian:bookworm"? For the image of the registry write docker.io/library/debain:bookworm`},
		{"ubunut:noble", "looks misspelled", `did you mean "ubuntu:noble"`},
		{"rootsf:/srv/root", "rootsf:/srv/root", "rootfs:"},
		{"docker-archve:/x.tar", "docker-archve", "docker-archive:"},
		{"alpine", "there is no tag and no digest", "write alpine:TAG, such as alpine:latest"},
		{"ghcr.io/a/b", "there is no tag", "ghcr.io/a/b:TAG"},
		{"localhost:5000/a", "there is no tag", "localhost:5000/a:TAG"},
		{"Alpine:3.20", "lower case", "write alpine:3.20"},
		{"ghcr.io/Owner/App:V1", "lower case", "write ghcr.io/owner/app:V1"},
		{"docker://alpine:3.20", "does not read docker:", "without docker:"},
		{"https://example.org/x.tar", "does not read https:", "rootfs:FILE"},
		{"docker-daemon:x", "does not read docker-daemon:", "docker save"},
		{"disk:", "there is no path after disk:", "disk:/path"},
		{"oci://x", "", ""},
		{"quay://a/b:c", "before // has no meaning", "HOST/NAME:TAG"},
		{"alpine:3.20!", "3.20!", "alpine:3.20"},
		{"alpine@sha256:abc", `"sha256:abc" is not a digest`, "64 hexadecimal digits"},
		{"alpine@sha512:" + strings.Repeat("a", 128), "is not a digest", "sha256"},
		{"alpine@" + strings.ToUpper(sum), "is not a digest", "sha256"},
		{"oci:", "no path after oci:", "oci:/path"},
		{"oci:/srv/x:", "no tag after the last colon", "oci:/srv/x:TAG"},
		{"rootfs:", "no path after rootfs:", "rootfs:/path"},
		{"rootfs:~/root", "does not expand ~", "home folder"},
		{"/srv/root", "does not say what", "rootfs:/srv/root"},
		{"./image.tar", "does not say what", "oci-archive:"},
		{"image.tar.gz", "does not say what", "rootfs:image.tar.gz"},
		{"a/" + strings.Repeat("b", 5000) + ":c", "5004 bytes", ""},
	} {
		if c.problem == "" { // oci://x names the path //x
			if r, err := Parse(c.text); err != nil || r.Path != "/x" {
				t.Errorf("%q: %+v, %v", c.text, r, err)
			}
			continue
		}
		_, err := Parse(c.text)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.problem) ||
			!strings.Contains(fault.Fix(err), c.fix) {
			t.Errorf("%q: %v\nwant %q, with the fix %q", c.text, err, c.problem, c.fix)
		}
	}
}

// Names in registries that resemble no distribution are taken as they are.
func TestNamesThatResembleNothing(t *testing.T) {
	for _, text := range []string{"busybox:1.36", "fedora:40", "rust:1", "oracle:1",
		"python:3.12-slim", "archlinux:base"} {
		if r, err := Parse(text); err != nil || r.Kind != Registry {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"debian:bookworm", "alpine:3.20", "a/b@" + sum, "oci:/x:y",
		"rootfs:x.tar", "store:app:1", "store:a", "debain:x", "::@",
		"localhost:5000/x:y", "docker://x", "~", "oci:", "a:b:c", "\xff", "@", ":", "x@y@z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("%q: %v is not Invalid", text, err)
			}
			return
		}
		switch {
		case r.Kind == Packages && (r.Distribution == "" || r.Suite == ""):
		case r.Kind == Registry && (r.Host == "" || r.Repository == "" || r.Tag == "" && r.Digest == ""):
		case r.Kind == Stored && (r.StoredName == "" || r.Version == ""):
		case r.Kind != Packages && r.Kind != Registry && r.Kind != Stored && r.Path == "":
		default:
			again, err := Parse(r.String())
			if err != nil {
				t.Fatalf("%q: its full name %q: %v", text, r.String(), err)
			}
			if r.Kind == Registry && again.String() != r.String() {
				t.Fatalf("%q: the full name of %q is %q", text, r.String(), again.String())
			}
			return
		}
		t.Fatalf("%q: %+v lacks a part", text, r)
	})
}

func TestStoredImages(t *testing.T) {
	for _, text := range []string{"store:", "store:app", "store:app:", "store::1", "store:a/b:1", "store:..:1",
		"store:a:b:c", "store:a:" + strings.Repeat("x", 200)} {
		if r, err := Parse(text); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.Fix(err), "store:NAME:VERSION") {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
	if r, err := Store("app", "1"); err != nil || r.Text != "store:app:1" {
		t.Errorf("%+v, %v", r, err)
	}
}
