// bbolt under `nandle crash-test`: keys that are put one by one, and what must hold of them after a power cut.
//
//	bbolt make|run|check [--stay]
//
// The database is $NANDLE_DIR/keys.db. `make` makes it and no more (for --dir), `run` puts keys, a transaction each.
// `check` wants that it can be opened, is in order (Tx.Check), and has each key that `run` had said was put. With --stay it
// reads folders from its standard input and answers each (`nandle crash-test --check-stays`).
package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

const keys = 30

var bucket = []byte("keys")

func open(folder string) (*bolt.DB, error) {
	return bolt.Open(filepath.Join(folder, "keys.db"), 0o600, &bolt.Options{Timeout: time.Second})
}

func run(folder string, count int) error {
	db, err := open(folder)
	if err != nil {
		return err
	}
	fmt.Println("opened")
	for n := 0; n < count; n++ {
		err := db.Update(func(tx *bolt.Tx) error {
			all, err := tx.CreateBucketIfNotExists(bucket)
			if err != nil {
				return err
			}
			return all.Put([]byte(fmt.Sprintf("key%04d", n)), make([]byte, 100+n*37%900))
		})
		if err != nil {
			return err
		}
		fmt.Println("done", n)
	}
	return db.Close()
}

// check says what is wrong, or nothing. bbolt panics on what it does not expect to find.
func check(folder, output string) (wrong string) {
	defer func() {
		if panicked := recover(); panicked != nil {
			wrong = strings.SplitN(fmt.Sprint("panic: ", panicked), "\n", 2)[0]
		}
	}()
	said, err := os.ReadFile(output)
	if err != nil {
		return err.Error()
	}
	done := strings.Count(string(said), "done ")
	db, err := open(folder)
	if err != nil {
		return "open: " + err.Error()
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		all := tx.Bucket(bucket)
		for n := 0; n < done; n++ {
			if all == nil || len(all.Get([]byte(fmt.Sprintf("key%04d", n)))) != 100+n*37%900 {
				return fmt.Errorf("key%04d was put, and is not there", n)
			}
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return ""
}

func main() {
	debug.SetPanicOnFault(true)
	folder, output := os.Getenv("NANDLE_DIR"), os.Getenv("NANDLE_OUTPUT")
	var err error
	switch what := strings.Join(os.Args[1:], " "); what {
	case "make":
		err = run(folder, 0)
	case "run":
		err = run(folder, keys)
	case "check":
		if wrong := check(folder, output); wrong != "" {
			err = fmt.Errorf("%s", wrong)
		}
	case "check --stay":
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			wrong := check(lines.Text(), lines.Text()+".output")
			if wrong == "" {
				wrong = "ok"
			}
			fmt.Println(wrong)
		}
	default:
		err = fmt.Errorf("%q: expected make, run or check", what)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
