// A client-go program as operators write them: a typed client that sends protobuf, and a shared informer.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check(err)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()

	seen := make(chan string, 100)
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { tell(seen, "added", obj) },
		UpdateFunc: func(_, obj any) { tell(seen, "updated", obj) },
		DeleteFunc: func(obj any) { tell(seen, "deleted", obj) },
	})
	check(err)
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		check(fmt.Errorf("the informer never synced"))
	}

	maps := client.CoreV1().ConfigMaps("default")
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "from-go"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{})
	check(err)
	made.Data["b"] = "2"
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	check(err)
	check(maps.Delete(ctx, "from-go", metav1.DeleteOptions{}))
	for range 3 {
		select {
		case text := <-seen:
			fmt.Println(text)
		case <-ctx.Done():
			check(ctx.Err())
		}
	}
}

func tell(seen chan string, what string, obj any) {
	if object, ok := obj.(*corev1.ConfigMap); ok && object.Name == "from-go" {
		seen <- fmt.Sprintf("%s %d", what, len(object.Data))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
