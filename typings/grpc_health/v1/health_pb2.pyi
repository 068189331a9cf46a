class HealthCheckResponse:
    SERVING: int
    status: int

class HealthCheckRequest:
    service: str
    def __init__(self, service: str = "") -> None: ...
