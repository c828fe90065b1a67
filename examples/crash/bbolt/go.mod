module github.com/nandle/nandle/examples/crash/bbolt

go 1.17

require go.etcd.io/bbolt v1.3.7

require golang.org/x/sys v0.4.0 // indirect
