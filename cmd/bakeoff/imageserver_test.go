package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"bakeoff/provision/image/registry/registrytest"
	"bakeoff/provision/image/source"
	"bakeoff/provision/image/source/alpine"
	"bakeoff/provision/image/source/sourcetest"
)

// imageServer is a mirror of Alpine Linux in /alpine and an IMGAPI server in /smartos.
// The mirror has two releases, of which the second holds what an archive must not have.
func imageServer(t *testing.T) string {
	t.Helper()
	arch := source.Here("x86_64", "aarch64", "x86", "riscv64", "ppc64le", "s390x", "loongarch64", "armv7")
	folder := "/alpine/releases/" + arch
	c := sourcetest.Case{Source: alpine.Source{}, Documents: map[string]string{}, Files: map[string]string{}}
	list := ""
	for version, tar := range map[string][]byte{
		"3.22.0": registrytest.Tar(t, map[string]string{"bin/sh": "shell"}),
		"6.66.0": registrytest.Tar(t, map[string]string{"../../evil": "evil"})} {
		name, sum := fmt.Sprintf("alpine-minirootfs-%s-%s.tar.gz", version, arch), sha256.Sum256(tar)
		list += fmt.Sprintf("-\n  arch: %s\n  version: %s\n  flavor: alpine-minirootfs\n  file: %s\n  date: 2025-05-30\n"+
			"  size: %d\n  sha256: %s\n", arch, version, name, len(tar), hex.EncodeToString(sum[:]))
		c.Files[folder+"/"+name] = string(tar)
	}
	c.Documents[folder+"/latest-releases.yaml"] = list
	zone := `{"v":2,"uuid":"01b2c898-945f-11e1-a523-af1afbe22822","name":"smartos","version":"1.6.3","type":"zone-dataset",
"os":"smartos","published_at":"2012-05-02T15:14:45Z",
"files":[{"sha1":"97f20b32c2016782257176fb58a35e5044f05840","size":9}]}`
	c.Documents["/smartos/images/01b2c898-945f-11e1-a523-af1afbe22822"] = zone
	c.Documents["/smartos/images"] = "[" + zone + "]"
	c.Files["/smartos/images/01b2c898-945f-11e1-a523-af1afbe22822/file"] = "no stream"
	return sourcetest.Start(t, c).URL
}
