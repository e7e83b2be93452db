"""A channel without a type carries any object that can be pickled; filters work as elsewhere."""

import activebroker as ab


def is_alert(message: object) -> bool:
    return isinstance(message, dict) and message.get("level") == "alert"


def run(fabric: ab.Fabric) -> list[object]:
    messages = fabric.channel("messages", object)
    alerts = messages.derive(is_alert)
    with alerts.subscribe() as events, messages.supplier("plant") as plant:
        plant.publish({"level": "info", "text": "started"})
        plant.publish(["not", "a", "mapping"])
        plant.publish({"level": "alert", "text": "too hot", "where": ("hall", 3)})
        messages.close()
        got = [event.content for event in events]
    print(*got, sep="\n")
    return got


if __name__ == "__main__":
    with ab.Fabric() as fabric:
        run(fabric)
